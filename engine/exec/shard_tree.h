// The fixed order in which parts of a sum over shards are added: node (i, k) covers shards i .. i + 2^k - 1 (i a multiple of 2^k) and is
// node (i, k-1) + node (i + 2^(k-1), k-1). A shard without rows is left out: its sibling stands for both. So the bits of a sum depend on the number of
// shards and on which of them have rows, not on who computes them.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace eng {

// One addition: the part that lies at `left`'s shard += the part at `right`'s. A part is named after its first shard that has rows.
struct TreeSum {
  int64_t left, right;
  int64_t end;  // one past the last shard that `right`'s part covers
};

// All additions, each after those that make its operands; the sum is then at the first shard with rows (-1 where none has).
struct ShardTree {
  std::vector<TreeSum> sums;
  int64_t root = -1;
};

ShardTree shard_tree(int64_t shards, const std::function<bool(int64_t)>& has_rows);

// Sums `parts` (one of `count` elements a shard; null: no rows) by the tree into the root's part and gives it; null where there is none.
template <class T>
T* sum_parts(const ShardTree& tree, const std::vector<T*>& parts, size_t count) {
  for (const TreeSum& s : tree.sums) {
    T* left = parts[static_cast<size_t>(s.left)];
    const T* right = parts[static_cast<size_t>(s.right)];
    for (size_t i = 0; i < count; ++i) left[i] += right[i];
  }
  return tree.root < 0 ? nullptr : parts[static_cast<size_t>(tree.root)];
}

}  // namespace eng

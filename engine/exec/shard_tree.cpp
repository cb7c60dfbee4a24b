// See shard_tree.h.
#include "engine/exec/shard_tree.h"

namespace eng {

ShardTree shard_tree(int64_t shards, const std::function<bool(int64_t)>& has_rows) {
  ShardTree tree;
  std::vector<int64_t> at;  // per node of the level: the shard that holds its part, -1: none
  for (int64_t s = 0; s < shards; ++s) at.push_back(has_rows(s) ? s : -1);
  for (int64_t width = 1; at.size() > 1; width *= 2) {
    std::vector<int64_t> next;
    for (size_t i = 0; i < at.size(); i += 2) {
      const int64_t left = at[i], right = i + 1 < at.size() ? at[i + 1] : -1;
      if (left >= 0 && right >= 0) tree.sums.push_back({left, right, static_cast<int64_t>(i + 2) * width});
      next.push_back(left >= 0 ? left : right);
    }
    at = std::move(next);
  }
  tree.root = at.empty() ? -1 : at[0];
  return tree;
}

}  // namespace eng

// The order of sums over shards: by hand, and independent of how shards are spread.
#include <doctest/doctest.h>

#include "engine/exec/fleet.h"
#include "engine/exec/shard_tree.h"

using namespace eng;

namespace {

std::string expression(int64_t shards, const std::vector<int64_t>& empty) {
  std::vector<std::string> at;
  for (int64_t s = 0; s < shards; ++s) at.push_back(std::to_string(s));
  const ShardTree tree = shard_tree(shards, [&](int64_t s) { return std::find(empty.begin(), empty.end(), s) == empty.end(); });
  for (const TreeSum& t : tree.sums) at[static_cast<size_t>(t.left)] = "(" + at[static_cast<size_t>(t.left)] + "+" + at[static_cast<size_t>(t.right)] + ")";
  return tree.root < 0 ? "" : at[static_cast<size_t>(tree.root)];
}

}  // namespace

TEST_CASE("shards are added in the pairs of a binary tree over their numbers") {
  CHECK(expression(1, {}) == "0");
  CHECK(expression(2, {}) == "(0+1)");
  CHECK(expression(3, {}) == "((0+1)+2)");
  CHECK(expression(4, {}) == "((0+1)+(2+3))");
  CHECK(expression(7, {}) == "(((0+1)+(2+3))+((4+5)+6))");
}

TEST_CASE("a shard without rows is left out, its sibling stands for both") {
  CHECK(expression(4, {0}) == "(1+(2+3))");
  CHECK(expression(4, {2, 3}) == "(0+1)");
  CHECK(expression(4, {0, 1, 2}) == "3");
  CHECK(expression(2, {0, 1}) == "");
}

TEST_CASE("every shard has one owner, contiguous, and the rows of a batch are all given out") {
  for (int64_t shards = 1; shards <= 12; ++shards)
    for (size_t replicas = 1; replicas <= static_cast<size_t>(shards); ++replicas) {
      Fleet f;
      f.ranks = Ranks::alone();
      f.replicas.resize(replicas);
      f.shards = shards;
      std::vector<int64_t> owned(replicas, 0);
      int64_t before = 0;
      for (int64_t s = 0; s < shards; ++s) {
        CHECK(f.owner(s) >= before);
        before = f.owner(s);
        REQUIRE(before < static_cast<int64_t>(replicas));
        ++owned[static_cast<size_t>(before)];
      }
      CHECK(*std::max_element(owned.begin(), owned.end()) - *std::min_element(owned.begin(), owned.end()) <= 1);
      for (int64_t batch : {1, 2, 5, 16}) {
        int64_t next = 0, least = batch, most = 0;
        for (int64_t s = 0; s < shards; ++s) {
          const auto [first, last] = f.rows(s, batch);
          CHECK(first == next);
          next = last;
          least = std::min(least, last - first);
          most = std::max(most, last - first);
        }
        CHECK(next == batch);
        CHECK(most - least <= 1);
      }
    }
}

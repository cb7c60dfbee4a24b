// See sum_ways.h.
#include "engine/exec/sum_ways.h"

#include <algorithm>

namespace eng {
namespace {

constexpr int kMostLevels = 6;  // of sums between devices whose direction differs from way to way

int rank_of(const Fleet& fleet, int64_t shard) { return static_cast<int>(fleet.owner(shard) / static_cast<int64_t>(fleet.replicas.size())); }

// Sends and receives of the total along a binomial tree whose root is `root`.
void add_broadcast(std::vector<Job>& jobs, int rank, int ranks, int root) {
  const int relative = (rank - root + ranks) % ranks;
  int low = 1;
  while (low < ranks && !(relative & low)) low *= 2;
  if (relative) jobs.push_back({JobKind::kReceiveAll, -1, -1, (relative - low + root) % ranks});
  for (int step = low / 2; step > 0; step /= 2)
    if (relative + step < ranks) jobs.push_back({JobKind::kSendAll, -1, -1, (relative + step + root) % ranks});
}

// Bit l of `number` says for the sums of level l into which of the two parts they go. Sums on one device go into the left part, as plan_lanes() has them.
// `levels` becomes the depth of the tree of sums between devices.
Way plan_way(const Fleet& fleet, const ShardTree& tree, const std::map<int64_t, Part>& parts, size_t number, int& levels) {
  struct Sum {
    int64_t at;
    int level = 0;
  };
  std::map<int64_t, Sum> sums;  // by the tree's name
  for (const TreeSum& t : tree.sums) sums[t.left] = {t.left}, sums[t.right] = {t.right};
  const int me = fleet.ranks->rank();
  Way way;
  way.root = tree.root;
  for (const TreeSum& t : tree.sums) {
    const Sum left = sums[t.left], right = sums[t.right];
    const bool between = fleet.owner(left.at) != fleet.owner(right.at);
    const int level = std::max(left.level, right.level);
    const bool to_right = between && level < kMostLevels && (number >> level & 1);
    const int64_t into = to_right ? right.at : left.at, from = to_right ? left.at : right.at;
    sums[t.left] = {into, level + (between ? 1 : 0)};
    levels = std::max(levels, sums[t.left].level);
    if (t.left == tree.root) way.root = into;
    const int to = rank_of(fleet, into), of = rank_of(fleet, from);
    if (to == me && of == me) {
      if (parts.at(from).merged_into != into) way.jobs.push_back({JobKind::kAdd, into, from, -1});
    } else if (to == me) {
      way.jobs.push_back({JobKind::kReceive, into, from, of});
    } else if (of == me) {
      way.jobs.push_back({JobKind::kSend, into, from, to});
    }
  }
  add_broadcast(way.jobs, me, fleet.ranks->size(), rank_of(fleet, way.root));
  return way;
}

}  // namespace

void plan_lanes(std::map<int64_t, Part>& parts, const ShardTree& tree, bool at_once) {
  std::map<std::pair<size_t, size_t>, std::vector<int64_t>> lanes;
  for (const auto& [shard, part] : parts) lanes[{part.replica, part.lane}].push_back(shard);
  for (const auto& [lane, shards] : lanes) {
    const auto here = [&](const TreeSum& s) {
      if (!std::binary_search(shards.begin(), shards.end(), s.left) || !std::binary_search(shards.begin(), shards.end(), s.right)) return false;
      for (const TreeSum& other : tree.sums)  // what comes to its parts later from elsewhere
        for (int64_t at : {other.left, other.right})
          if (at >= s.left && at < s.end && !std::binary_search(shards.begin(), shards.end(), at)) return false;
      return true;
    };
    std::vector<char> used;
    for (size_t i = 0; i < shards.size(); ++i) {
      Part& p = parts[shards[i]];
      const auto free = std::find(used.begin(), used.end(), 0);
      p.slot = static_cast<size_t>(free - used.begin());
      if (free == used.end()) used.push_back(1);
      else *free = 1;
      const int64_t next = i + 1 < shards.size() ? shards[i + 1] : INT64_MAX;
      for (const TreeSum& s : tree.sums) {
        if (s.right > shards[i] || s.left < shards[0] || s.end > next || !here(s) || parts[s.right].merged_into >= 0) continue;
        p.merges.emplace_back(s.left, s.right);
        parts[s.right].merged_into = s.left;
        parts[s.left].own_events = true;
        if (!at_once) used[parts[s.right].slot] = 0;
      }
    }
  }
}

// Each level of sums between devices doubles the ways.
std::vector<Way> plan_ways(const Fleet& fleet, const ShardTree& tree, const std::map<int64_t, Part>& parts) {
  int levels = 0;
  std::vector<Way> ways{plan_way(fleet, tree, parts, 0, levels)};
  levels = std::min(levels, kMostLevels);
  for (size_t i = 1; i < size_t{1} << levels; ++i) {
    int ignored = 0;
    ways.push_back(plan_way(fleet, tree, parts, i, ignored));
  }
  return ways;
}

Way plan_all_reduce(const Fleet& fleet, const std::map<int64_t, Part>& parts) {
  Way way;
  for (size_t r = 0; r < fleet.replicas.size(); ++r) {
    const ShardTree own = shard_tree(fleet.shards, [&](int64_t shard) {
      const auto it = parts.find(shard);
      return it != parts.end() && it->second.replica == r;
    });
    for (const TreeSum& t : own.sums)
      if (parts.at(t.right).merged_into != t.left) way.jobs.push_back({JobKind::kAdd, t.left, t.right, -1});
    way.roots.push_back(own.root);
  }
  way.jobs.push_back({JobKind::kAllReduce});
  return way;
}

}  // namespace eng

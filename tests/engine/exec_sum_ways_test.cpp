// Plans of sums over shards, worked off on paper by all ranks: which shards are in a total, how often, and who has it.
#include <doctest/doctest.h>

#include <set>

#include "engine/exec/sum_ways.h"

using namespace eng;

namespace {

// A rank that is only asked for its number.
class NumberedRank final : public Ranks {
 public:
  NumberedRank(int rank, int size) : rank_(rank), size_(size) {}
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  int local_rank() const override { return rank_; }
  int local_size() const override { return size_; }
  const std::string& host() const override { return host_; }
  const std::string& host_of(int) const override { return host_; }
  int64_t post_send(int, int, const void*, uint64_t) override { return 0; }
  int64_t post_receive(int, int, void*, uint64_t) override { return 0; }
  bool done(int64_t) override { return false; }
  Status wait(int64_t) override { return internal_error("no messages"); }
  Result<int64_t> wait_any(std::span<const int64_t>, std::chrono::microseconds) override { return internal_error("no messages"); }
  Status health() override { return {}; }
  Status gather_all(const void*, uint64_t, void*) override { return internal_error("no messages"); }
  Status broadcast(void*, uint64_t, int) override { return internal_error("no messages"); }
  Status barrier() override { return internal_error("no messages"); }
  void set_step(int64_t) override {}
  void set_note(const std::string&) override {}
  [[noreturn]] void fail(const Status&) override { std::abort(); }

 private:
  int rank_, size_;
  std::string host_ = "here";
};

using Shards = std::multiset<int64_t>;

// A rank's side: its parts with what lies in their memory, and the total if it has come as a message.
struct Side {
  Fleet fleet;
  std::map<int64_t, Part> parts;
  std::map<int64_t, Shards> memory;
  std::vector<Way> ways;
  Way all_reduce;
};

void add(Shards& to, const Shards& from) { to.insert(from.begin(), from.end()); }

struct Setup {
  std::vector<Side> sides;
  ShardTree tree;
  Shards all;

  // Shards for which `rows` has 1 have some; a replica deals its shards to its lanes in contiguous parts.
  Setup(int ranks, size_t replicas, int64_t lanes, const std::vector<int>& rows, bool at_once) : sides(static_cast<size_t>(ranks)) {
    const auto shards = static_cast<int64_t>(rows.size());
    tree = shard_tree(shards, [&](int64_t s) { return rows[static_cast<size_t>(s)] != 0; });
    for (int r = 0; r < ranks; ++r) {
      Side& side = sides[static_cast<size_t>(r)];
      side.fleet.ranks = std::make_shared<NumberedRank>(r, ranks);
      side.fleet.replicas.resize(replicas);
      side.fleet.shards = shards;
      for (int64_t s = 0; s < shards; ++s) {
        const int64_t replica = side.fleet.owner(s) - r * static_cast<int64_t>(replicas);
        if (!rows[static_cast<size_t>(s)]) continue;
        if (r == 0) all.insert(s);
        if (replica < 0 || replica >= static_cast<int64_t>(replicas)) continue;
        side.parts[s] = {.replica = static_cast<size_t>(replica), .lane = static_cast<size_t>(s % shards * lanes / shards)};
        side.memory[s] = {s};
      }
      plan_lanes(side.parts, tree, at_once);
      side.ways = plan_ways(side.fleet, tree, side.parts);
      side.all_reduce = plan_all_reduce(side.fleet, side.parts);
    }
  }
  std::map<int64_t, Shards> behind_programs(const Side& side) const {
    std::map<int64_t, Shards> memory = side.memory;
    for (const auto& [shard, part] : side.parts)
      for (const auto& [left, right] : part.merges) add(memory[left], memory[right]);
    return memory;
  }
};

// Whether no two shards of a lane that are both needed still have one slot: a later shard takes a slot only when its part has been added.
void check_slots(const Side& side) {
  std::map<std::vector<size_t>, int64_t> in;
  std::set<int64_t> merged;
  for (const auto& [shard, part] : side.parts) {
    const std::vector<size_t> slot{part.replica, part.lane, part.slot};
    if (const auto it = in.find(slot); it != in.end()) CHECK(merged.count(it->second));
    in[slot] = shard;
    for (const auto& [left, right] : part.merges) merged.insert(right);
  }
}

void check_all_reduce(const Setup& s) {
  Shards total;
  for (const Side& side : s.sides) {
    auto memory = s.behind_programs(side);
    REQUIRE(side.all_reduce.roots.size() == side.fleet.replicas.size());
    for (const Job& job : side.all_reduce.jobs) {
      if (job.kind == JobKind::kAllReduce) {
        CHECK(&job == &side.all_reduce.jobs.back());
        continue;
      }
      REQUIRE(job.kind == JobKind::kAdd);
      CHECK(side.parts.at(job.into).replica == side.parts.at(job.from).replica);
      add(memory[job.into], memory[job.from]);
    }
    for (int64_t root : side.all_reduce.roots)
      if (root >= 0) add(total, memory[root]);
  }
  CHECK(total == s.all);
}

// All ranks work off way `w`; messages between two ranks arrive in their order.
void check_way(const Setup& s, size_t w) {
  std::vector<std::map<int64_t, Shards>> memory;
  std::vector<Shards> host(s.sides.size());
  std::vector<size_t> at(s.sides.size(), 0);
  std::map<std::pair<int, int>, std::vector<Shards>> messages;
  for (const Side& side : s.sides) memory.push_back(s.behind_programs(side));
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t r = 0; r < s.sides.size(); ++r) {
      const Way& way = s.sides[r].ways[w];
      while (at[r] < way.jobs.size()) {
        const Job& job = way.jobs[at[r]];
        const int me = static_cast<int>(r);
        if (job.kind == JobKind::kAdd) {
          add(memory[r][job.into], memory[r].at(job.from));
        } else if (job.kind == JobKind::kSend) {
          messages[{me, job.rank}].push_back(memory[r].at(job.from));
        } else if (job.kind == JobKind::kSendAll) {
          messages[{me, job.rank}].push_back(memory[r].count(way.root) && s.sides[r].parts.count(way.root) ? memory[r].at(way.root) : host[r]);
        } else {
          auto& come = messages[{job.rank, me}];
          if (come.empty()) break;
          if (job.kind == JobKind::kReceive) add(memory[r][job.into], come.front());
          else host[r] = come.front();
          come.erase(come.begin());
        }
        ++at[r];
        moved = true;
      }
    }
  }
  for (size_t r = 0; r < s.sides.size(); ++r) {
    const Way& way = s.sides[r].ways[w];
    CHECK(at[r] == way.jobs.size());
    CHECK((s.sides[r].parts.count(way.root) ? memory[r].at(way.root) : host[r]) == s.all);
  }
}

template <class F>
void each_setup(F&& f) {
  for (int ranks : {1, 2, 3, 4})
    for (size_t replicas : {1, 2, 3})
      for (int64_t lanes : {1, 2})
        for (int64_t shards : {1, 2, 3, 4, 5, 8, 13}) {
          if (shards < ranks * static_cast<int64_t>(replicas)) continue;
          for (int empties = 0; empties < 3; ++empties) {
            std::vector<int> rows(static_cast<size_t>(shards), 1);
            if (empties > 0)
              for (int64_t i = 0; i < shards; ++i) rows[static_cast<size_t>(i)] = empties == 1 ? i == shards - 1 : i % 3 != 1;
            if (std::find(rows.begin(), rows.end(), 1) == rows.end()) continue;
            CAPTURE(ranks);
            CAPTURE(replicas);
            CAPTURE(lanes);
            CAPTURE(shards);
            CAPTURE(empties);
            f(Setup(ranks, replicas, lanes, rows, empties == 0 && lanes == 2));
          }
        }
}

}  // namespace

TEST_CASE("in the fixed order every rank gets the sum of all shards with rows, each once, whichever way a bucket takes") {
  size_t ways = 0;
  each_setup([&](const Setup& s) {
    for (const Side& side : s.sides) {
      check_slots(side);
      REQUIRE(side.ways.size() == s.sides[0].ways.size());
    }
    for (size_t w = 0; w < s.sides[0].ways.size(); ++w) check_way(s, w);
    ways = std::max(ways, s.sides[0].ways.size());
  });
  CHECK(ways > 4);
}

TEST_CASE("before an all-reduce each replica has the sum of its own shards, and together they have each shard once") {
  each_setup([](const Setup& s) { check_all_reduce(s); });
}

TEST_CASE("a replica whose shards have no rows has nothing to give to an all-reduce") {
  const Setup s(1, 3, 1, {0, 0, 1}, false);
  CHECK(s.sides[0].all_reduce.roots == std::vector<int64_t>{-1, -1, 2});
}

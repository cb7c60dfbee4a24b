// See strategy.h.
#include "graph/partition/strategy.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "graph/partition/make_plan.h"

namespace eng {
namespace {

struct Tried {
  Strategy strategy;
  Status status;      // why it is not possible
  double seconds = 0;  // as it was found
  bool fits() const { return status.ok(); }
};

// The same devices, links and costs: then one solution serves both.
bool alike(const Problem& a, const Problem& b) {
  auto same_device = [](const DeviceSpec& x, const DeviceSpec& y) { return x.memory_limit == y.memory_limit; };
  auto same_link = [](const LinkSpec& x, const LinkSpec& y) { return x.latency == y.latency && x.bytes_per_second == y.bytes_per_second; };
  auto same_group = [](const Group& x, const Group& y) {
    return x.forced == y.forced && std::equal(std::begin(x.seconds), std::end(x.seconds), std::begin(y.seconds));
  };
  if (!std::equal(a.machine.devices.begin(), a.machine.devices.end(), b.machine.devices.begin(), b.machine.devices.end(), same_device)) return false;
  if (!std::equal(a.groups.begin(), a.groups.end(), b.groups.begin(), b.groups.end(), same_group)) return false;
  for (int from = 0; from < a.device_count(); ++from)
    for (int to = 0; to < a.device_count(); ++to)
      if (from != to && !same_link(a.machine.link(from, to), b.machine.link(from, to))) return false;
  return true;
}

// One placement for all replicas: of the best ones for each, the one whose slowest replica is fastest.
Status place_replicas(const std::vector<Problem>& replicas, const SolveOptions& options, Strategy& s) {
  bool found = false;
  Status last;
  for (size_t i = 0; i < replicas.size(); ++i) {
    if (std::any_of(replicas.begin(), replicas.begin() + static_cast<std::ptrdiff_t>(i), [&](const Problem& p) { return alike(p, replicas[i]); })) continue;
    auto solution = solve(replicas[i], options);
    if (!solution.ok()) {
      last = solution.status();
      continue;
    }
    double slowest = 0;
    bool fits = true;
    for (const Problem& p : replicas) {
      const Score score = Simulator(p).run(solution->placement);
      fits &= score.fits();
      for (size_t g = 0; g < p.groups.size(); ++g) fits &= p.groups[g].allowed(solution->placement[g]);
      slowest = std::max(slowest, score.makespan);
    }
    if (!fits) last = device_error("the replicas' devices are so different that no one placement fits all");
    else if (!found || slowest < s.seconds) found = true, s.seconds = slowest, s.solution = std::move(*solution);
  }
  return found ? Status() : last;
}

class Chooser {
 public:
  Chooser(const Machine& machine, const StrategyOptions& options, const ProblemSource& source) : machine_(machine), options_(options), source_(source) {}

  Result<Strategy> run() {
    const int devices = machine_.device_count();
    if (options_.batch < 1 || devices < 1) return invalid("nothing to plan: a batch of ", options_.batch, " on ", devices, " devices");
    int best = -1;
    for (int replicas = 1; replicas <= devices; ++replicas) {
      if (devices % replicas != 0 || (options_.replicas > 0 && replicas != options_.replicas)) continue;
      if (replicas > options_.batch || (options_.shards > 0 && replicas > options_.shards)) continue;
      tried_.push_back(attempt(replicas));
      const Tried& now = tried_.back();
      if (now.fits() && (best < 0 || now.strategy.seconds < tried_[static_cast<size_t>(best)].strategy.seconds)) best = static_cast<int>(tried_.size()) - 1;
    }
    if (tried_.empty()) return usage_error(options_.replicas, " replicas are not possible with ", devices, " devices, a batch of ", options_.batch, " and ",
                                           options_.shards, " shards");
    if (options_.replicas == 0 && best >= 0) best = unless_one_device_does(best);
    const std::vector<PlanCandidate> candidates = list(best);
    if (best < 0) {
      if (tried_.size() == 1) return tried_[0].status;
      std::string all;
      for (const PlanCandidate& c : candidates) all += "\n  " + c.name + ": " + c.note;
      return Status(tried_[0].status.code(), cat("a batch of ", options_.batch, " cannot be run in any way:", all));
    }
    Strategy strategy = std::move(tried_[static_cast<size_t>(best)].strategy);
    strategy.candidates = candidates;
    return strategy;
  }

 private:
  Tried attempt(int replicas) {
    Tried t;
    Strategy& s = t.strategy;
    const int split = machine_.device_count() / replicas;
    s.replicas = replicas;
    const int shards = options_.shards > 0 ? options_.shards : replicas;
    s.shards_per_replica = (shards + replicas - 1) / replicas;
    s.shard_batch = (options_.batch + shards - 1) / shards;
    for (int r = 0; r < replicas; ++r) {
      s.replica_devices.emplace_back(static_cast<size_t>(split));
      std::iota(s.replica_devices.back().begin(), s.replica_devices.back().end(), r * split);
    }
    std::vector<Problem> problems;
    for (const auto& devices : s.replica_devices) {
      auto p = source_(s.shard_batch, devices);
      if (!p.ok()) {
        t.status = p.status();
        return t;
      }
      p->shards = s.shards_per_replica;
      if (replicas > 1) p->all_reduce = tree_all_reduce(machine_, s.replica_devices);
      problems.push_back(std::move(*p));
    }
    if (replicas == 1) one_device_ = each_device_alone(problems[0]);
    t.status = place_replicas(problems, options_.solve, s);
    t.seconds = s.seconds;
    s.problem = std::move(problems[0]);
    return t;
  }

  // Where several devices gain too little, the best single one: the first candidate with all on that device.
  int unless_one_device_does(int best) {
    const OneDevice* one = nullptr;
    for (const OneDevice& o : one_device_)
      if (o.note.empty() && (!one || o.score.makespan < one->score.makespan)) one = &o;
    if (!one || tried_[static_cast<size_t>(best)].strategy.seconds < one->score.makespan * (1 - options_.least_gain)) return best;
    Strategy& s = tried_[0].strategy;  // of one replica: it was possible, or there would be no single device
    s.solution.placement.assign(s.solution.placement.size(), one->device);
    s.solution.score = one->score;
    s.solution.method = "one device";
    s.seconds = one->score.makespan;
    return 0;
  }

  // The single devices, then every number of replicas.
  std::vector<PlanCandidate> list(int best) const {
    std::vector<PlanCandidate> all;
    const double seconds = best >= 0 ? tried_[static_cast<size_t>(best)].strategy.seconds : 0;
    auto margin = [&](PlanCandidate& c) { c.margin = c.fits && seconds > 0 ? c.seconds / seconds - 1 : 0; };
    std::set<int> used;
    if (best >= 0 && tried_[static_cast<size_t>(best)].strategy.replicas == 1)
      used.insert(tried_[static_cast<size_t>(best)].strategy.solution.placement.begin(), tried_[static_cast<size_t>(best)].strategy.solution.placement.end());
    for (const OneDevice& one : one_device_) {
      PlanCandidate c;
      c.name = machine_.devices[static_cast<size_t>(one.device)].name + " alone";
      c.fits = one.note.empty();
      c.note = one.note;
      c.seconds = c.fits ? one.score.makespan : 0;
      c.chosen = used.size() == 1 && *used.begin() == one.device;
      margin(c);
      all.push_back(std::move(c));
    }
    if (machine_.device_count() == 1 && !all.empty()) return all;
    for (size_t i = 0; i < tried_.size(); ++i) {
      const Strategy& s = tried_[i].strategy;
      PlanCandidate c;
      const int split = machine_.device_count() / s.replicas;
      c.name = cat(s.replicas, s.replicas == 1 ? " replica x " : " replicas x ", split, split == 1 ? " device" : " devices");
      c.fits = tried_[i].fits();
      c.note = tried_[i].status.message();
      c.seconds = c.fits ? tried_[i].seconds : 0;
      c.chosen = static_cast<int>(i) == best && used.size() != 1;
      if (c.fits && split > 1 && s.solution.score.crossings == 0 && std::set<int>(s.solution.placement.begin(), s.solution.placement.end()).size() == 1)
        c.note = "to split the branches gains nothing: one device of the group does all";
      margin(c);
      if (c.fits && c.margin < -1e-12) c.note = cat("gains less than the ", 100 * options_.least_gain, " % that several devices must promise");
      all.push_back(std::move(c));
    }
    return all;
  }

  const Machine& machine_;
  const StrategyOptions& options_;
  const ProblemSource& source_;
  std::vector<Tried> tried_;
  std::vector<OneDevice> one_device_;
};

}  // namespace

AllReduce tree_all_reduce(const Machine& machine, const std::vector<std::vector<int>>& replica_devices) {
  AllReduce reduce;
  const size_t replicas = replica_devices.size();
  for (size_t step = 1; step < replicas; step *= 2) {
    double latency = 0, per_byte = 0;
    for (size_t r = 0; r + step < replicas; r += 2 * step) {
      for (size_t d = 0; d < replica_devices[r].size(); ++d) {
        const int a = replica_devices[r][d], b = replica_devices[r + step][d];
        for (const LinkSpec& link : {machine.link(a, b), machine.link(b, a)}) {
          latency = std::max(latency, link.latency);
          if (link.bytes_per_second > 0) per_byte = std::max(per_byte, 1 / link.bytes_per_second);
        }
      }
    }
    reduce.latency += 2 * latency;
    reduce.seconds_per_byte += 2 * per_byte;
  }
  return reduce;
}

Result<Strategy> choose_strategy(const Machine& machine, const StrategyOptions& options, const ProblemSource& source) {
  return Chooser(machine, options, source).run();
}

Plan make_plan(const Graph& step, const Machine& machine, const StrategyOptions& options, const Strategy& strategy) {
  Plan plan = make_plan(step, strategy.problem, strategy.solution);
  plan.machine = machine;
  plan.batch = options.batch;
  plan.replicas = strategy.replicas;
  plan.shards_per_replica = strategy.shards_per_replica;
  plan.replica_devices = strategy.replica_devices;
  plan.seconds = strategy.seconds;
  plan.candidates = strategy.candidates;
  drop_idle_devices(plan);
  return plan;
}

}  // namespace eng

// See budget.h. Two loops: the inner one (Search) makes the line of a step fit under a limit on the bytes that are alive at once, one
// value at a time; the outer one (fit_memory) lowers that limit until the estimator's total is within what was asked for.
#include "engine/memory/budget.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "graph/ops/op.h"
#include "graph/passes/recompute.h"

namespace eng {
namespace {

constexpr size_t kTried = 12;        // moves that are measured before the best is taken
constexpr size_t kTriedAtMost = 1000; // where none of those helps
constexpr double kRung = 0.985;      // each line limit by the one before
constexpr int kRungs = 128;

struct Measure {
  double excess = 0;    // bytes above the limit, summed over slots
  uint64_t peak = 0;
  double cost = 0;      // of the copies
};

class Search {
 public:
  Search(const Graph& g, const StepLine& line, const std::vector<uint64_t>& workspace, const CostOfNode& cost) : g_(g), line_(line) {
    bytes_.assign(static_cast<size_t>(g.value_count()), 0);
    scratch_.assign(static_cast<size_t>(g.node_count()), 0);
    cost_.assign(static_cast<size_t>(g.node_count()), 0);
    ends_late_.assign(static_cast<size_t>(g.value_count()), 0);
    for (ValueId v : g.outputs) ends_late_[static_cast<size_t>(v)] = 1;
    for (NodeId n : line.order()) {
      const Node& node = g.node(n);
      cost_[static_cast<size_t>(n)] = cost(g, n);
      total_cost_ += cost_[static_cast<size_t>(n)];
      for (ValueId v : node.outputs)
        if (v != kNoValue) bytes_[static_cast<size_t>(v)] = static_cast<uint64_t>(element_count(g.value(v).shape)) * size_of(g.value(v).dtype);
      if (!node.outputs.empty() && node.outputs[0] != kNoValue && static_cast<size_t>(node.outputs[0]) < workspace.size())
        scratch_[static_cast<size_t>(n)] = workspace[static_cast<size_t>(node.outputs[0])];
    }
    for (const auto& [state, next] : g.updates) bytes_[static_cast<size_t>(next)] = 0;  // takes the state's own memory, as a rule
  }

  double total_cost() const { return total_cost_; }
  double extra_cost(const std::vector<char>& kept) { return measure(kept, UINT64_MAX).cost; }

  // From `kept` to a choice whose line stays within `limit`, or as near to it as moves of one value lead. True where it is within.
  bool reach(uint64_t limit, std::vector<char>& kept) {
    Measure now = measure(kept, limit);
    while (now.excess > 0) {
      const std::optional<Move> move = best_move(limit, kept, now);
      if (!move) return false;
      kept[static_cast<size_t>(move->value)] = move->to;
      now = measure(kept, limit);
    }
    keep_what_fits(limit, kept);
    return true;
  }

  uint64_t peak(const std::vector<char>& kept) { return measure(kept, UINT64_MAX).peak; }

 private:
  Measure measure(const std::vector<char>& kept, uint64_t limit) {
    line_of_ = line_.unroll(kept);
    const size_t slots = line_of_.slots.size();
    change_.assign(slots + 1, 0);
    for (const Line::Version& v : line_of_.versions) {
      const int64_t bytes = static_cast<int64_t>(bytes_[static_cast<size_t>(v.value)]);
      const bool late = !v.again && ends_late_[static_cast<size_t>(v.value)];
      change_[static_cast<size_t>(v.first)] += bytes;
      change_[late ? slots : static_cast<size_t>(v.last) + 1] -= bytes;
    }
    Measure m;
    int64_t alive = 0;
    live_.resize(slots);
    for (size_t s = 0; s < slots; ++s) {
      alive += change_[s];
      const NodeId n = line_of_.slots[s].node;
      const uint64_t bytes = static_cast<uint64_t>(alive) + scratch_[static_cast<size_t>(n)];
      live_[s] = bytes;
      m.peak = std::max(m.peak, bytes);
      if (bytes > limit) m.excess += static_cast<double>(bytes - limit);
      if (line_of_.slots[s].again) m.cost += cost_[static_cast<size_t>(n)];
    }
    return m;
  }

  struct Move {
    ValueId value;
    Keep to;
    double score;  // bytes times slots above the limit, a unit of cost
  };

  // What may be done about the values that are alive above the limit: kept ones are dropped, best score first; then copies are made each time or avoided by keeping.
  std::vector<Move> moves(uint64_t limit, const std::vector<char>& kept) {
    std::vector<int> above(line_of_.slots.size() + 1, 0);
    for (size_t s = 0; s < line_of_.slots.size(); ++s) above[s + 1] = above[s] + (live_[s] > limit);
    std::vector<double> gain(static_cast<size_t>(g_.value_count()), 0);
    for (const Line::Version& v : line_of_.versions)
      gain[static_cast<size_t>(v.value)] += static_cast<double>(bytes_[static_cast<size_t>(v.value)]) *
                                            (above[static_cast<size_t>(v.last) + 1] - above[static_cast<size_t>(v.first)]);
    std::vector<Move> list;
    for (ValueId v : line_.choices()) {
      const double score = gain[static_cast<size_t>(v)] / (cost_[static_cast<size_t>(g_.value(v).producer)] + total_cost_ * 1e-9);
      if (score <= 0) continue;
      for (Keep to : {kAgain, kEachTime, kKept})
        if (kept[static_cast<size_t>(v)] != to && (to != kEachTime || kept[static_cast<size_t>(v)] == kAgain)) list.push_back({v, to, score});
    }
    std::stable_sort(list.begin(), list.end(), [](const Move& a, const Move& b) { return a.to != b.to ? a.to == kAgain || b.to == kKept : a.score > b.score; });
    return list;
  }

  // The move that takes most of the excess for its cost; none where none takes any.
  std::optional<Move> best_move(uint64_t limit, std::vector<char>& kept, const Measure& now) {
    const std::vector<Move> list = moves(limit, kept);
    std::optional<Move> best;
    double best_rate = 0;
    for (size_t i = 0; i < std::min(list.size(), kTriedAtMost) && (i < kTried || !best); ++i) {
      char& choice = kept[static_cast<size_t>(list[i].value)];
      const char before = std::exchange(choice, list[i].to);
      const Measure then = measure(kept, limit);
      choice = before;
      if (then.excess >= now.excess) continue;
      const double rate = (now.excess - then.excess) / std::max(then.cost - now.cost, total_cost_ * 1e-6);
      if (rate > best_rate) best_rate = rate, best = list[i];
    }
    return best;
  }

  // Drops that turned out not to be needed are taken back, the most costly first.
  void keep_what_fits(uint64_t limit, std::vector<char>& kept) {
    std::vector<ValueId> dropped;
    for (ValueId v : line_.choices())
      if (kept[static_cast<size_t>(v)] != kKept && line_.kept_by_all()[static_cast<size_t>(v)]) dropped.push_back(v);
    std::stable_sort(dropped.begin(), dropped.end(), [&](ValueId a, ValueId b) {
      return cost_[static_cast<size_t>(g_.value(a).producer)] > cost_[static_cast<size_t>(g_.value(b).producer)];
    });
    double cost = measure(kept, limit).cost;
    for (ValueId v : dropped) {
      const char before = std::exchange(kept[static_cast<size_t>(v)], kKept);
      const Measure then = measure(kept, limit);
      if (then.excess > 0 || then.cost > cost) kept[static_cast<size_t>(v)] = before;
      else cost = then.cost;
    }
  }

  const Graph& g_;
  const StepLine& line_;
  std::vector<uint64_t> bytes_, scratch_;  // per value; per node
  std::vector<double> cost_;
  std::vector<char> ends_late_;
  double total_cost_ = 0;
  Line line_of_;                 // of the last measure
  std::vector<int64_t> change_;
  std::vector<uint64_t> live_;
};

double flops_of(const Graph& g) {
  double sum = 0;
  for (NodeId n : g.live_nodes()) sum += cost_of(g, g.node(n)).flops;
  return sum;
}

// A choice that was tried, as the estimator sees it.
struct Tried {
  Graph graph;
  std::vector<char> kept;
  int copies = 0;
  MemoryNeed need;
  double cost = 0;  // of the copies
};

Result<Tried> estimate(const Graph& step, std::vector<char> kept, const MemoryEstimator& estimator) {
  Tried t;
  t.graph = step;
  ENG_ASSIGN(t.copies, recompute(t.graph, kept));
  ENG_ASSIGN(t.need, estimator(t.graph));
  t.kept = std::move(kept);
  return t;
}

Status does_not_fit(uint64_t limit, const MemoryNeed& whole, const Tried& least) {
  const std::string with = least.copies ? cat(", and ", least.need.total, " with ", least.copies, " of its nodes run again in the backward phase") : "";
  return device_error("the step does not fit into ", limit, " bytes: it needs ", whole.total, with, "; ", whole.total - whole.arena,
                      " of them are weights, optimiser, inputs and constants. Give it that much, or a smaller batch");
}

}  // namespace

double counted_cost(const Graph& graph, NodeId node) {
  const Cost c = cost_of(graph, graph.node(node));
  return c.flops + 15 * c.bytes;
}

Result<BudgetChoice> fit_memory(const Graph& step, uint64_t limit, const MemoryEstimator& estimator, uint64_t* smallest, const CostOfNode& cost) {
  ENG_ASSIGN(const MemoryNeed whole, estimator(step));
  BudgetChoice choice;
  choice.bytes = choice.bytes_without = whole.total;
  if (smallest) *smallest = whole.total;
  if (whole.total <= limit) {
    choice.graph = step;
    choice.flops = flops_of(step);
    return choice;
  }
  ENG_ASSIGN(const StepLine line, StepLine::of(step));
  Search search(step, line, whole.workspace, cost);
  const std::vector<char>& all = line.kept_by_all();

  // Rungs of line limits, independent of what is asked for, so that what one call names as the smallest another can have. The line knows no
  // memory that kernels share and no gaps in the arena, so every rung that is tried is judged by the estimator.
  const double top = static_cast<double>(search.peak(all));
  std::optional<Tried> best, least;
  auto climb = [&](int rung) -> Result<bool> {  // whether the rung's line limit was reached
    std::vector<char> kept = all;
    const bool reached = search.reach(static_cast<uint64_t>(top * std::pow(kRung, rung)), kept);
    ENG_ASSIGN(Tried tried, estimate(step, std::move(kept), estimator));
    tried.cost = search.extra_cost(tried.kept);
    if (!least || tried.need.total < least->need.total) least = tried;
    if (tried.need.total <= limit && (!best || tried.cost < best->cost)) best = std::move(tried);
    return reached;
  };
  for (int above = 0, below = kRungs; below - above > 1;) {  // the first rung that fits
    const int rung = (above + below) / 2;
    least.reset();
    ENG_ASSIGN(const bool reached, climb(rung));
    (least->need.total > limit && reached ? above : below) = rung;
  }
  if (!best) {
    least.reset();
    for (int above = 0, below = kRungs; below - above > 1;) {  // the last rung that is reached
      const int rung = (above + below) / 2;
      ENG_ASSIGN(const bool reached, climb(rung));
      (reached ? above : below) = rung;
    }
    if (smallest) *smallest = least->need.total;
  }
  if (!best) return does_not_fit(limit, whole, *least);
  choice.graph = std::move(best->graph);
  choice.copies = best->copies;
  choice.bytes = best->need.total;
  for (ValueId v : line.choices())
    if (all[static_cast<size_t>(v)] && best->kept[static_cast<size_t>(v)] != kKept) choice.recomputed.push_back(step.value(v).name);
  choice.flops = flops_of(step);
  choice.extra_flops = flops_of(choice.graph) - choice.flops;
  choice.slow_down = 1 + best->cost / std::max(search.total_cost(), 1.0);
  return choice;
}

}  // namespace eng

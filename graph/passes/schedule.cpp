// See schedule.h.
#include "graph/passes/schedule.h"

#include <algorithm>

namespace eng {
namespace {

struct Edges {
  std::vector<std::vector<NodeId>> after;  // nodes that wait for this one
  std::vector<int> waiting;                // how many this one waits for
  void add(NodeId first, NodeId then) {
    after[static_cast<size_t>(first)].push_back(then);
    ++waiting[static_cast<size_t>(then)];
  }
};

Edges data_edges(const Graph& g, const std::vector<NodeId>& order) {
  Edges e;
  e.after.resize(static_cast<size_t>(g.node_count()));
  e.waiting.assign(static_cast<size_t>(g.node_count()), 0);
  for (NodeId n : order)
    for (ValueId v : g.node(n).inputs)
      if (v != kNoValue && g.value(v).producer != kNoNode) e.add(g.value(v).producer, n);
  return e;
}

// Whether a path leads from `from` to one of `targets`. Updates have few followers, so this is short.
bool reaches(const Edges& e, NodeId from, const std::vector<NodeId>& targets) {
  std::vector<NodeId> stack{from}, seen;
  while (!stack.empty()) {
    const NodeId n = stack.back();
    stack.pop_back();
    for (NodeId next : e.after[static_cast<size_t>(n)]) {
      if (std::find(targets.begin(), targets.end(), next) != targets.end()) return true;
      if (std::find(seen.begin(), seen.end(), next) != seen.end()) continue;
      if (seen.size() > 64) return true;  // not an update at the end of the step: better no edge than a slow search
      seen.push_back(next);
      stack.push_back(next);
    }
  }
  return false;
}

// The node that makes a state's next content comes after everybody else who reads the old one.
void add_update_edges(const Graph& g, Edges& e) {
  const auto uses = g.uses();
  for (const auto& [state, next] : g.updates) {
    const NodeId maker = g.value(next).producer;
    if (maker == kNoNode) continue;
    std::vector<NodeId> readers;
    for (NodeId n : uses[static_cast<size_t>(state)])
      if (n != maker && std::find(readers.begin(), readers.end(), n) == readers.end()) readers.push_back(n);
    if (readers.empty() || reaches(e, maker, readers)) continue;
    for (NodeId n : readers) e.add(n, maker);
  }
}

int64_t bytes_of(const Graph& g, ValueId v) {
  return element_count(g.value(v).shape) * static_cast<int64_t>(size_of(g.value(v).dtype));
}

class Scheduler {
 public:
  Scheduler(const Graph& g, std::vector<NodeId> base, Edges edges) : g_(g), base_(std::move(base)), e_(std::move(edges)) {
    done_.assign(static_cast<size_t>(g.node_count()), 0);
    deferred_.assign(static_cast<size_t>(g.node_count()), 0);
    remaining_.assign(static_cast<size_t>(g.value_count()), 0);
    for (NodeId n : base_)
      for (ValueId v : g.node(n).inputs)
        if (v != kNoValue) ++remaining_[static_cast<size_t>(v)];
  }

  std::vector<NodeId> run() {
    // Nodes of one gradient rule stand together in the stored order; the best of those that are ready goes first.
    for (size_t at = 0; at < base_.size(); ++at) {
      const NodeId n = base_[at];
      if (done(n)) continue;
      if (e_.waiting[static_cast<size_t>(n)] > 0) {  // comes when the last reader of what it overwrites has run
        deferred_[static_cast<size_t>(n)] = 1;
        continue;
      }
      if (g_.node(n).phase == Phase::kBackward) {
        for (NodeId better = best_sibling(at); better != n && better != kNoNode; better = best_sibling(at)) emit(better);
      }
      if (!done(n)) emit(n);
    }
    return std::move(out_);
  }

 private:
  bool done(NodeId n) const { return done_[static_cast<size_t>(n)] != 0; }

  // Bytes that running n makes minus those that die with it.
  int64_t growth(NodeId n) const {
    int64_t sum = 0;
    for (ValueId v : g_.node(n).outputs)
      if (v != kNoValue) sum += bytes_of(g_, v);
    for (ValueId v : g_.node(n).inputs)
      if (v != kNoValue && g_.value(v).role == Role::kActivation && remaining_[static_cast<size_t>(v)] == 1) sum -= bytes_of(g_, v);
    return sum;
  }

  NodeId best_sibling(size_t at) const {
    const NodeId first = base_[at];
    if (done(first)) return kNoNode;
    NodeId best = first;
    int64_t least = growth(first);
    for (size_t i = at + 1; i < base_.size() && i < at + 8; ++i) {
      const NodeId n = base_[i];
      if (g_.node(n).phase != Phase::kBackward || g_.node(n).forward_node != g_.node(first).forward_node) break;
      if (done(n) || e_.waiting[static_cast<size_t>(n)] > 0) continue;
      if (const int64_t size = growth(n); size < least) least = size, best = n;
    }
    return best;
  }

  void emit(NodeId n) {
    std::vector<NodeId> stack{n};
    while (!stack.empty()) {
      const NodeId next = stack.back();
      stack.pop_back();
      out_.push_back(next);
      done_[static_cast<size_t>(next)] = 1;
      for (ValueId v : g_.node(next).inputs)
        if (v != kNoValue) --remaining_[static_cast<size_t>(v)];
      for (NodeId follower : e_.after[static_cast<size_t>(next)])
        if (--e_.waiting[static_cast<size_t>(follower)] == 0 && (g_.node(follower).phase == Phase::kUpdate || deferred_[static_cast<size_t>(follower)]))
          stack.push_back(follower);
    }
  }

  const Graph& g_;
  std::vector<NodeId> base_;
  Edges e_;
  std::vector<char> done_, deferred_;
  std::vector<int> remaining_;  // reads of a value that are still to come
  std::vector<NodeId> out_;
};

}  // namespace

Result<std::vector<NodeId>> schedule(const Graph& g) {
  ENG_ASSIGN(std::vector<NodeId> base, g.topological_order());
  Edges edges = data_edges(g, base);
  add_update_edges(g, edges);
  std::vector<NodeId> order = Scheduler(g, base, std::move(edges)).run();
  // Updates that read each other's states wait for each other: then the stored order stays, and some of them are not made in place.
  if (order.size() != base.size()) return base;
  return order;
}

}  // namespace eng

// See dead_code.h.
#include "graph/passes/dead_code.h"

namespace eng {

Result<int> dead_code(Graph& g, const std::vector<ValueId>& extra) {
  ENG_ASSIGN(std::vector<NodeId> order, g.topological_order());
  std::vector<char> wanted(static_cast<size_t>(g.value_count()), 0);
  auto want = [&](ValueId v) { if (v != kNoValue) wanted[static_cast<size_t>(v)] = 1; };
  for (ValueId v : g.outputs) want(v);
  for (ValueId v : extra) want(v);
  for (const auto& [state, next] : g.updates) want(next);
  int removed = 0;
  for (auto it = order.rbegin(); it != order.rend(); ++it) {
    bool alive = false;
    for (ValueId v : g.node(*it).outputs) alive |= v != kNoValue && wanted[static_cast<size_t>(v)];
    if (alive) {
      for (ValueId v : g.node(*it).inputs) want(v);
    } else {
      g.remove_node(*it);
      ++removed;
    }
  }
  return removed;
}

}  // namespace eng

// See training_form_rnn.h.
#include "graph/passes/training_form_rnn.h"

#include "graph/ops/op.h"

namespace eng {

Status rnn_training_form(Graph& graph) {
  for (NodeId id : graph.live_nodes()) {
    const bool lstm = graph.node(id).op_type == "LSTM", gru = graph.node(id).op_type == "GRU";
    if (!graph.node(id).domain.empty() || (!lstm && !gru)) continue;
    const size_t reserve = lstm ? 3 : 2;
    const std::string label = graph.label(id), hint = graph.node(id).name.empty() ? "recurrent" : graph.node(id).name;
    graph.node(id).outputs.resize(reserve + 1, kNoValue);
    for (size_t i : {size_t{0}, reserve}) {
      if (graph.node(id).outputs[i] != kNoValue) continue;
      const ValueId v = graph.add_value(hint + (i ? "/reserve" : "/Y"));
      graph.value(v).producer = id;
      graph.value(v).producer_output = static_cast<int32_t>(i);
      graph.node(id).outputs[i] = v;
    }
    graph.node(id).domain = kEngineDomain;
    graph.node(id).op_type = lstm ? "LstmTraining" : "GruTraining";
    Status s = infer_node(graph, id);
    if (!s.ok()) return s.in(label);
  }
  return {};
}

}  // namespace eng

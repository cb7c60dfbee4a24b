// A graph node as the ABI's eb_node: owns the arrays that the C struct points to. Valid while the graph's constants live.
#pragma once

#include <deque>
#include <vector>

#include "backends/abi/backend_abi.h"
#include "graph/ir/graph.h"

namespace eng {

class NodeDesc {
 public:
  NodeDesc(const Graph& graph, const Node& node, const std::vector<std::vector<int64_t>>& strides);
  const eb_node& get() const { return node_; }

 private:
  eb_node node_{};
  std::vector<eb_tensor> inputs_, outputs_;
  std::vector<const void*> host_;
  std::vector<eb_attribute> attributes_;
  std::deque<std::vector<eb_string>> string_lists_;
  std::deque<eb_tensor> tensors_;
};

}  // namespace eng

// What a graph will take of a device's memory once compiled, without compiling it: the same passes, order, sharing and arena plan as
// Program::compile, but nothing is allocated and kernels are made only to be asked for their workspace and aliases, once for
// each different node. Many variants of one step (recomputation, batch sizes) are so compared in milliseconds each.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/exec/program.h"
#include "engine/memory/budget.h"
#include "engine/plugin/device.h"
#include "graph/ir/graph.h"

namespace eng {

class MemoryEstimate {
 public:
  explicit MemoryEstimate(std::shared_ptr<Device> device) : device_(std::move(device)) {}

  // The report that Program::compile(graph, device, store, fetches, options) would give; errors name a node that the device does not take.
  Result<MemoryReport> report(Graph graph, const std::vector<ValueId>& fetches, const ProgramOptions& options = {});
  // The same as fit_memory() takes it. Keeps a reference to this.
  MemoryEstimator for_fetches(std::vector<ValueId> fetches, ProgramOptions options = {});

 private:
  struct Traits {
    Status status;
    uint64_t workspace = 0;
    std::vector<eb_alias> aliases;
  };
  const Traits& traits(const Graph& graph, NodeId node);
  Result<MemoryReport> plan(Graph& graph, const std::vector<ValueId>& fetches, const ProgramOptions& options, std::vector<uint64_t>* workspace);

  std::shared_ptr<Device> device_;
  std::unordered_map<std::string, Traits> known_;
  std::unordered_map<std::string, bool> taken_;
};

}  // namespace eng

// A graph compiled for one device: kernels are created, memory is planned, and a step is a flat list that is enqueued without
// allocating anything. A training step with its gradients and updates is one program; so is an evaluation.
//
//   auto store = std::make_shared<StateStore>(device);
//   ENG_ASSIGN(auto program, Program::compile(step.graph, device, store, {step.loss, step.correct}));
//   program->feed(step.inputs[0], pictures); program->feed(step.labels, labels); program->feed(step.learning_rate, rate);
//   program->run();
//   program->fetch(step.loss, loss);
//
// Parameters and states live in the StateStore under their value names and change by run() where the graph has updates.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/exec/state_store.h"
#include "engine/memory/report.h"
#include "engine/plugin/device.h"
#include "graph/ir/graph.h"

namespace eng {

struct ProgramOptions {
  bool keep_all = false;         // debugging: every value the given graph makes can be fetched
  bool assign_layouts = true;    // channels-last where the device prefers it; false: everything row-major
};

struct KernelRow {
  std::string node, op, implementation;
  Phase phase = Phase::kForward;
};

struct NodeTiming {
  KernelRow kernel;
  double seconds = 0;  // best of the repeats
  double flops = 0;    // as the operator's cost rule counts them
};

class Program {
 public:
  // `graph` has concrete shapes everywhere. It is copied, and the copy goes through the device passes (dead code, fusion, layouts);
  // value ids of the given graph stay valid for feed() and fetch(). What neither a fetch nor an update needs is not computed.
  // Errors name the node that no kernel of the device takes, with every refusal.
  static Result<std::unique_ptr<Program>> compile(Graph graph, std::shared_ptr<Device> device, std::shared_ptr<StateStore> store,
                                                  const std::vector<ValueId>& fetches, const ProgramOptions& options = {});
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  // Enqueues the copy of one graph input; the tensor must stay until the next fetch() or synchronize. An input that the program
  // does not need is accepted and ignored. Type and shape must be the graph's.
  Status feed(ValueId input, const Tensor& host);
  // Enqueues one step. Every needed input must have been fed once. Errors of the work itself are reported by fetch() or synchronize().
  Status run();
  // Waits and copies a fetched value (or a parameter or state that the program uses) out. `host` is used where it has the value's type
  // and shape and nobody shares its bytes is the caller's care; otherwise it becomes a new tensor.
  Status fetch(ValueId value, Tensor& host);

  const MemoryReport& memory() const;
  const Graph& graph() const;                // after the passes, in the order of execution
  const std::vector<KernelRow>& kernels() const;  // in the order of execution
  // Runs whole steps node by node, waiting after each. States change as by `repeats` runs.
  Result<std::vector<NodeTiming>> profile(int repeats);
  const std::shared_ptr<Device>& device() const;

 private:
  struct Impl;
  explicit Program(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace eng

// A graph compiled for one or several devices: kernels are created, memory is planned, and a step is a flat list that is enqueued without
// allocating anything. A training step with its gradients and updates is one program; so is an evaluation.
//
//   auto store = std::make_shared<StateStore>(device);
//   ENG_ASSIGN(auto program, Program::compile(step.graph, device, store, {step.loss, step.correct}));
//   program->feed(step.inputs[0], pictures); program->feed(step.labels, labels); program->feed(step.learning_rate, rate);
//   program->run();
//   program->fetch(step.loss, loss);
//
// Parameters and states live in the StateStore under their value names and change by run() where the graph has updates.
// Several devices: Node::place says which of `places` runs a node; what crosses is joined by Send and Recv nodes (graph/partition/cut.h).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/exec/shared_arena.h"
#include "engine/exec/state_store.h"
#include "engine/memory/report.h"
#include "engine/plugin/device.h"
#include "graph/ir/graph.h"

namespace eng {

struct ProgramOptions {
  bool keep_all = false;         // debugging: every value the given graph makes can be fetched
  bool assign_layouts = true;    // channels-last where the device prefers it; false: everything row-major
  bool keep_order = false;       // nodes run in their stored order (a plan's); false: in the order of graph/passes/schedule.h
  // Graph inputs that are not fed, and results, that lie in memory of the caller's: bind() before each run that uses another place.
  std::vector<ValueId> external;
  // Inputs among them: the place whose device's memory they are bound to, where not all places may read it.
  std::map<ValueId, int32_t> external_places;
  // Groups of external results: mark i passes when all of group i are written.
  std::vector<std::vector<ValueId>> marks;
  // A block for each place that the program may share with others that never run at the same time; empty: blocks of its own.
  std::vector<std::shared_ptr<SharedArena>> arenas;
};

struct KernelRow {
  std::string node, op, implementation;
  Phase phase = Phase::kForward;
  uint64_t workspace = 0;  // bytes
};

struct NodeTiming {
  KernelRow kernel;
  int32_t place = 0;
  double seconds = 0;  // best of the repeats
  double flops = 0;    // as the operator's cost rule counts them
};

// Where a program stops for a sum over shards (ai.engine::ShardSum): after segment `index` has run, `input` holds this shard's part; `output`
// takes the sum before segment index + 1 is enqueued.
struct SyncPoint {
  ValueId value = kNoValue;
  DType dtype = DType::kFloat32;
  uint64_t bytes = 0;
  const void* input = nullptr;
  void* output = nullptr;
  std::shared_ptr<Device> device;
};

class Program {
 public:
  // `graph` has concrete shapes everywhere. It is copied, and the copy goes through the device passes (dead code, fusion, layouts);
  // value ids of the given graph stay valid for feed() and fetch(). What neither a fetch nor an update needs is not computed.
  // Errors name the node that no kernel of its device takes, with every refusal.
  static Result<std::unique_ptr<Program>> compile(Graph graph, std::shared_ptr<Device> device, std::shared_ptr<StateStore> store,
                                                  const std::vector<ValueId>& fetches, const ProgramOptions& options = {});
  static Result<std::unique_ptr<Program>> compile(Graph graph, std::vector<std::shared_ptr<Device>> places, std::shared_ptr<StateStore> store,
                                                  const std::vector<ValueId>& fetches, const ProgramOptions& options = {});
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  // Enqueues the copy of one graph input; the tensor must stay until the next fetch() or synchronize. An input that the program
  // does not need is accepted and ignored. Type and shape must be the graph's.
  Status feed(ValueId input, const Tensor& host);
  // The same from bytes in row-major order, as many as the input has.
  Status feed_bytes(ValueId input, const void* host, uint64_t bytes);
  // Where an external value lies from the next run on: memory of its place's device, as long as the value.
  void bind(ValueId external, void* memory);
  // Enqueues one step. Every needed input must have been fed once. Errors of the work itself are reported by fetch() or synchronize().
  Status run();
  // The same in pieces, for programs with sync points: run_segment(0), sums over shards, run_segment(1), ...
  size_t segments() const;
  Status run_segment(size_t index);
  const std::vector<SyncPoint>& sync_points() const;
  // Enqueued behind everything that the last run put on the place of the value's device; waiting for it is the caller's.
  Status fetch_later(ValueId value, void* host, uint64_t bytes);
  // Of the last run. One event for each device that takes part.
  const std::vector<Event*>& mark(size_t index) const;
  // Everything enqueued is done; the first error of it.
  Status synchronize();
  // Waits and copies a fetched value (or a parameter or state that the program uses) out. `host` is used where it has the value's type
  // and shape and nobody shares its bytes is the caller's care; otherwise it becomes a new tensor.
  Status fetch(ValueId value, Tensor& host);

  const std::vector<std::shared_ptr<Device>>& places() const;
  const MemoryReport& memory(size_t place = 0) const;
  const Graph& graph() const;                // after the passes, in the order of execution
  const std::vector<KernelRow>& kernels(size_t place = 0) const;  // in the order of execution
  // Runs whole steps node by node, waiting after each. States change as by `repeats` runs. In the order of graph().
  Result<std::vector<NodeTiming>> profile(int repeats);
  const std::shared_ptr<Device>& device() const { return places()[0]; }

 private:
  struct Impl;
  explicit Program(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace eng

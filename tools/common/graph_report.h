// What engine-graph says about a model: info, check, trainable, memory. Each is a struct that is printed as text or as JSON.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "engine/plugin/device.h"
#include "graph/ir/graph.h"
#include "graph/passes/bind_shapes.h"

namespace eng::tools {

struct MemoryRow {
  int64_t batch = 0;
  uint64_t total = 0, arena = 0, state = 0, inputs = 0, constants = 0, workspace = 0, activations = 0;
  std::string peak_node, problem;  // problem: why it could not be compiled
};

struct InfoReport {
  std::string path, name, producer;
  int64_t ir_version = 0;
  std::map<std::string, int64_t> opsets;
  std::vector<std::string> inputs, outputs;           // "x float32 [N,3,224,224]"
  int64_t parameters = 0, parameter_tensors = 0, state_values = 0, state_tensors = 0, nodes = 0;
  std::map<std::string, int64_t> operators;           // "Conv" or "domain::Op" -> nodes
  double forward_flops = 0, training_flops = 0;       // of one sample; 0 where shapes are not known
  std::string flops_problem;
  std::vector<MemoryRow> memory;
  std::map<std::string, std::string> metadata;
};

struct TrainableReport {
  struct Weight {
    std::string name, why;  // why it is not trained; empty where it is
    Shape shape;
  };
  struct Obstacle {
    std::string node, reason, remedy;
  };
  std::string target, loss;
  std::vector<Obstacle> obstacles;  // every one at once; empty: a step can be built
  std::vector<Weight> weights;
  int64_t trained = 0, trained_values = 0;
  std::string problem;              // what else stands in the way (shapes that are left open, ...)
};

// `binding.batch` is ignored: info uses 1, memory the given sizes.
InfoReport info_of(const Graph& model, const std::string& path, const ShapeBinding& binding, const std::string& target,
                   const std::shared_ptr<Device>& device, const std::vector<int64_t>& batches, const std::string& optimizer);
TrainableReport trainable_of(const Graph& model, const ShapeBinding& binding, const std::string& target, const std::shared_ptr<Device>& device);

std::string as_text(const InfoReport& report);
std::string as_json(const InfoReport& report);
std::string as_text(const TrainableReport& report, bool all_weights);
std::string as_json(const TrainableReport& report);

// "12.3 MiB"; "1,234,567"; "24.5 G"
std::string bytes_text(uint64_t bytes);
std::string count_text(int64_t count);
std::string flops_text(double flops);

}  // namespace eng::tools

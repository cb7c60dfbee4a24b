// Whole runs of engine-train inside a test: models and arrays written to a folder, the command called in this process, its files read.
#pragma once

#include <doctest/doctest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/io/file.h"
#include "engine/train/checkpoint.h"
#include "engine/train/interrupt.h"
#include "graph/passes/mark_parameters.h"
#include "importers/npz/npz.h"
#include "importers/onnx/export.h"
#include "importers/onnx/import.h"
#include "tests/support/model_builder.h"
#include "tests/support/temp_folder.h"
#include "tools/common/train_session.h"

namespace eng::test {

inline std::string write_model(const TempFolder& folder, const std::string& name, Graph graph) {
  const std::string path = folder / name;
  for (ValueId out : graph.outputs) {
    if (graph.value(out).dtype == DType::kUndefined) graph.value(out).dtype = DType::kFloat32;
  }
  const Status status = export_onnx(graph, path);
  REQUIRE_MESSAGE(status.ok(), status.message());
  return path;
}

inline std::string write_arrays(const TempFolder& folder, const std::string& name, const std::map<std::string, Tensor>& arrays) {
  const std::string path = folder / name;
  const Status status = write_npz(path, arrays);
  REQUIRE_MESSAGE(status.ok(), status.message());
  return path;
}

// Exit status of engine-train with these words; silent, one thread.
inline int train(std::vector<std::string> words) {
  clear_interrupt();
  for (const char* w : {"--verbose", "0", "--threads", "1", "--workers", "1"}) words.emplace_back(w);
  return tools::run_engine_train(words);
}

// Lines of OUT/metrics.jsonl of one kind ("epoch" or "step").
inline std::vector<nlohmann::json> metrics(const std::string& out, const std::string& kind) {
  std::vector<nlohmann::json> lines;
  std::ifstream in(join_path(out, "metrics.jsonl"));
  for (std::string line; std::getline(in, line);) {
    auto j = nlohmann::json::parse(line, nullptr, false);
    if (j.is_object() && j["kind"] == kind) lines.push_back(std::move(j));
  }
  return lines;
}

inline Checkpoint checkpoint(const std::string& path) {
  auto c = load_checkpoint(path);
  REQUIRE_MESSAGE(c.ok(), c.status().message());
  return *c;
}

// The initializers of a model file.
inline std::map<std::string, Tensor> weights_of(const std::string& path) {
  auto graph = import_onnx(path);
  REQUIRE_MESSAGE(graph.ok(), graph.status().message());
  std::map<std::string, Tensor> out;
  for (ValueId id = 0; id < graph->value_count(); ++id) {
    if (graph->value(id).data) out[graph->value(id).name] = *graph->value(id).data;
  }
  return out;
}

inline bool same_bits(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() && std::string(reinterpret_cast<const char*>(a.bytes()), a.byte_count()) ==
                                                                 std::string(reinterpret_cast<const char*>(b.bytes()), b.byte_count());
}

inline bool same_bits(const std::map<std::string, Tensor>& a, const std::map<std::string, Tensor>& b) {
  if (a.size() != b.size()) return false;
  for (const auto& [name, tensor] : a) {
    const auto found = b.find(name);
    if (found == b.end() || !same_bits(tensor, found->second)) return false;
  }
  return true;
}

}  // namespace eng::test

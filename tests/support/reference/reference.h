// Float64 reference kernels and the interpreter that runs a graph with them: the oracle for shape inference, gradients and
// every backend's kernels. Written from the formulas with plain loops, sharing no code with backends.
// A stem's kernels are tests/support/reference/<stem>.cpp: `std::span<const RefDef> <stem>_reference()`, named once in list.cpp.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "graph/ir/graph.h"

namespace eng::test {

// Row-major, every element a double, whatever the element type it stands for (integers below 2^53 are exact; bool is 0 or 1).
struct RefTensor {
  DType dtype = DType::kUndefined;
  Shape shape;
  std::vector<double> v;
  RefTensor() = default;
  RefTensor(DType t, Shape s) : dtype(t), shape(std::move(s)), v(static_cast<size_t>(element_count(shape)), 0.0) {}
  int64_t count() const { return static_cast<int64_t>(v.size()); }
  int64_t dim(int64_t i) const { return shape[static_cast<size_t>(i < 0 ? i + static_cast<int64_t>(shape.size()) : i)]; }
  double operator[](int64_t i) const { return v[static_cast<size_t>(i)]; }
  double& operator[](int64_t i) { return v[static_cast<size_t>(i)]; }
};

struct RefCall {
  const Node& node;
  std::vector<const RefTensor*> inputs;  // null where omitted
  std::vector<RefTensor*> outputs;       // null where omitted; type and shape set by shape inference, content zero
  int in_count() const { return static_cast<int>(inputs.size()); }
  int out_count() const { return static_cast<int>(outputs.size()); }
  bool has(int i) const { return i < in_count() && inputs[static_cast<size_t>(i)]; }
  bool wants(int i) const { return i < out_count() && outputs[static_cast<size_t>(i)]; }
  const RefTensor& in(int i) const { return *inputs[static_cast<size_t>(i)]; }
  RefTensor& out(int i = 0) const { return *outputs[static_cast<size_t>(i)]; }
  const Attributes& attr() const { return node.attributes; }
  std::vector<int64_t> ints(int i) const;  // an input's content as integers; empty where omitted
};

using RefFn = void (*)(RefCall&);
struct RefDef {
  const char* domain;
  const char* op;
  RefFn run;
};
const RefDef* find_reference(const std::string& domain, const std::string& op);

RefTensor to_reference(const Tensor& t);
Tensor to_tensor(const RefTensor& t, DType type);

// Element i of `out_shape` (a flat row-major index) seen from an operand of `shape` that is broadcast to it: its flat index.
int64_t broadcast_index(int64_t i, const Shape& out_shape, const Shape& shape);
// Flat row-major index -> coordinates, and back.
std::vector<int64_t> unravel(int64_t i, const Shape& shape);
int64_t ravel(const std::vector<int64_t>& at, const Shape& shape);

// Runs every node; shapes must have been inferred. Gives all values. An operator without a reference kernel is an error.
Result<std::map<ValueId, RefTensor>> interpret(const Graph& graph, const std::map<ValueId, RefTensor>& feeds);

}  // namespace eng::test

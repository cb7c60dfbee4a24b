// Reorder: every layout to every other one, dense or with gaps, for each element size; element (i0, i1, ...) must stay what it is.
#include <doctest/doctest.h>

#include "graph/ops/op.h"
#include "tests/support/op_check.h"

using namespace eng;
using namespace eng::test;

namespace {

int64_t at(const std::vector<int64_t>& index, const std::vector<int64_t>& strides) {
  int64_t sum = 0;
  for (size_t i = 0; i < index.size(); ++i) sum += index[i] * strides[i];
  return sum;
}

// Bytes of a buffer in which x's elements lie with the given strides, and back.
void check_reorder(DType type, const Shape& shape, const std::vector<int64_t>& from, const std::vector<int64_t>& to) {
  Graph g;
  ValueId x = g.add_value("x", type, shape);
  g.value(x).role = Role::kInput;
  g.inputs = {x};
  NodeId n = g.add_node(kEngineDomain, "Reorder", {x}, 1);
  REQUIRE(infer_node(g, n).ok());
  auto kernel = DeviceKernel::create(cpu_device(), g, g.node(n), {from, to});
  REQUIRE_MESSAGE(kernel.ok(), kernel.status().message());
  const size_t element = size_of(type);
  auto extent = [&](const std::vector<int64_t>& strides) {
    int64_t last = 1;
    for (size_t i = 0; i < shape.size(); ++i) last += (shape[i] - 1) * strides[i];
    return static_cast<size_t>(last) * element;
  };
  std::vector<uint8_t> in(extent(from)), out(extent(to), 0);
  for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<uint8_t>(i * 131 + i / 251);
  const void* inputs[] = {in.data()};
  void* outputs[] = {out.data()};
  REQUIRE(kernel->run(inputs, outputs, nullptr).ok());
  REQUIRE(cpu_device()->synchronize().ok());
  std::vector<int64_t> index(shape.size(), 0);
  bool same = true;
  for (int64_t i = 0; i < element_count(shape); ++i) {
    const auto a = static_cast<size_t>(at(index, from)) * element, b = static_cast<size_t>(at(index, to)) * element;
    for (size_t k = 0; k < element; ++k) same = same && in[a + k] == out[b + k];
    for (size_t axis = shape.size(); axis-- > 0;) {
      if (++index[axis] < shape[axis]) break;
      index[axis] = 0;
    }
  }
  CHECK_MESSAGE(same, "of ", name_of(type), to_string(shape));
}

}  // namespace

TEST_CASE("reorder: elements keep their place between any two layouts") {
  for (DType type : {DType::kBool, DType::kFloat16, DType::kFloat32, DType::kInt64})
    for (const Shape& shape : {Shape{2, 3, 37}, Shape{2, 3, 5, 7}, Shape{1, 33, 17, 4}, Shape{3, 20, 1, 1}, Shape{2, 5, 2, 3, 4}, Shape{4, 1, 6, 6}}) {
      const auto rows = row_major_strides(shape), last = channels_last_strides(shape);
      auto gaps = last;  // a part of a tensor with twice the channels
      for (size_t i = 0; i < gaps.size(); ++i)
        if (i != 1) gaps[i] *= 2;
      for (const auto& from : {rows, last, gaps})
        for (const auto& to : {rows, last, gaps}) check_reorder(type, shape, from, to);
    }
}

TEST_CASE("a reorder changes no value, in either layout") {
  for (const Shape& shape : {Shape{2, 3, 4}, Shape{2, 3, 4, 5}, Shape{1, 17, 3, 1}, Shape{2, 3, 2, 2, 2}})
    check_forward({.op = "Reorder", .inputs = {real(shape)}, .domain = kEngineDomain});
}

// Gather, GatherElements, GatherND, ScatterElements, ScatterND and their gradients.
#include <doctest/doctest.h>

#include "tests/support/op_check.h"

using namespace eng;
using namespace eng::test;

namespace {

OpInput indices(Shape shape, int64_t low, int64_t high) {
  OpInput i = real(std::move(shape), static_cast<double>(low), static_cast<double>(high));
  i.dtype = DType::kInt64;
  return i;
}

OpCase make(const std::string& op, std::vector<OpInput> inputs, Attributes a, uint64_t seed) {
  OpCase c;
  c.op = op;
  c.inputs = std::move(inputs);
  c.attributes = std::move(a);
  c.seed = seed;
  c.rtol = 1e-6;
  return c;
}

// 0 .. count-1 in random order.
std::vector<double> permutation(int64_t count, Random& r) {
  std::vector<double> p;
  for (int64_t i = 0; i < count; ++i) p.push_back(static_cast<double>(i));
  for (int64_t i = count - 1; i > 0; --i) std::swap(p[static_cast<size_t>(i)], p[static_cast<size_t>(r.between(0, i))]);
  return p;
}

}  // namespace

TEST_CASE("Gather picks rows by negative and repeated indices and its gradient adds them") {
  Random r(11);
  for (uint64_t i = 0; i < 24; ++i) {
    const int64_t rank = r.between(1, 4), axis = r.between(-rank, rank - 1);
    Shape shape;
    for (int64_t d = 0; d < rank; ++d) shape.push_back(r.between(1, 5));
    const int64_t extent = shape[static_cast<size_t>(axis < 0 ? axis + rank : axis)];
    const Shape at = r.pick(std::vector<Shape>{{}, {1}, {4}, {2, 3}});
    check_op(make("Gather", {real(shape), indices(at, -extent, extent - 1)}, attrs({{"axis", axis}}), i));
  }
  check_backward(make("Gather", {real({5, 20000}), indices({9}, -5, 4)}, {}, 1));
  OpCase again = make("GatherGrad", {real({4, 3}), indices({4}, 0, 4)}, attrs({{"axis", int64_t{0}}, {"input_shape", std::vector<int64_t>{5, 3}}}), 1);
  again.domain = "ai.engine";
  check_op(again);
}

TEST_CASE("GatherElements picks element by element") {
  Random r(13);
  for (uint64_t i = 0; i < 20; ++i) {
    const int64_t axis = r.between(-3, 2);
    const Shape shape = {r.between(1, 4), r.between(1, 4), r.between(1, 4)};
    Shape at = shape;
    const size_t a = static_cast<size_t>(axis < 0 ? axis + 3 : axis);
    for (size_t d = 0; d < 3; ++d) at[d] = d == a ? r.between(1, 6) : r.between(1, shape[d]);
    check_op(make("GatherElements", {real(shape), indices(at, -shape[a], shape[a] - 1)}, attrs({{"axis", axis}}), i));
    check_op(make("ScatterElements", {real(shape), indices(Shape(at.size(), 1), 0, shape[a] - 1), real({1, 1, 1})}, attrs({{"axis", axis}}), i));
    const int64_t kind = r.between(0, 3);
    const std::string reductions[] = {"add", "mul", "max", "min"};
    OpCase c = make("ScatterElements", {real(shape, 0.5, 2), indices(at, -shape[a], shape[a] - 1), real(at, 0.5, 2)},
                    attrs({{"axis", axis}, {"reduction", reductions[kind]}}), i);
    check_op(c);
  }
}

TEST_CASE("GatherND and ScatterND take index tuples") {
  for (uint64_t i = 0; i < 8; ++i) {
    check_op(make("GatherND", {real({3, 4, 2}), indices({5, 2}, -3, 2)}, {}, i));
    check_op(make("GatherND", {real({3, 4, 2}), indices({5, 3}, -2, 1)}, {}, i));
    check_op(make("GatherND", {real({3, 4, 2}), indices({3, 2, 1}, -4, 3)}, attrs({{"batch_dims", int64_t{1}}}), i));
    for (const char* reduction : {"add", "mul", "max", "min"})
      check_op(make("ScatterND", {real({3, 4, 2}, 0.5, 2), indices({5, 2}, -3, 2), real({5, 2}, 0.5, 2)}, attrs({{"reduction", std::string(reduction)}}), i));
    Random r(i);
    OpInput order = given({4, 1}, permutation(4, r), DType::kInt64);
    check_op(make("ScatterND", {real({5, 3}), order, real({4, 3})}, {}, i));
  }
  OpCase again = make("GatherNDGrad", {real({4, 2}), indices({4, 1}, 0, 2)}, attrs({{"batch_dims", int64_t{0}}, {"input_shape", std::vector<int64_t>{3, 2}}}), 1);
  again.domain = "ai.engine";
  check_op(again);
}

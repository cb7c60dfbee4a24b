// Pad, Trilu, ReverseSequence, TopK, Range, EyeLike, OneHot and their gradients.
#include <doctest/doctest.h>

#include "tests/support/op_check.h"

using namespace eng;
using namespace eng::test;

namespace {

OpCase make(const std::string& op, std::vector<OpInput> inputs, Attributes a = {}, std::vector<bool> outputs = {true}) {
  OpCase c;
  c.op = op;
  c.inputs = std::move(inputs);
  c.attributes = std::move(a);
  c.outputs = std::move(outputs);
  c.rtol = 1e-6;
  return c;
}

OpInput host(std::vector<double> values, Shape shape, DType type = DType::kInt64) {
  OpInput i = given(std::move(shape), std::move(values), type);
  i.constant = true;
  return i;
}

}  // namespace

TEST_CASE("Pad fills, reflects, repeats the edge and wraps, and crops by negative pads") {
  Random r(3);
  for (uint64_t i = 0; i < 48; ++i) {
    const std::string mode = std::vector<std::string>{"constant", "reflect", "edge", "wrap"}[i % 4];
    const int64_t rank = r.between(1, 4);
    Shape shape;
    std::vector<int64_t> begin, end;
    for (int64_t d = 0; d < rank; ++d) {
      shape.push_back(r.between(2, 4));
      begin.push_back(r.between(-1, 3));
      end.push_back(r.between(shape.back() > 2 ? -1 : 0, 3));
    }
    begin.insert(begin.end(), end.begin(), end.end());
    OpCase c = make("Pad", {real(shape), ints(begin)}, attrs({{"mode", mode}}));
    if (i % 8 == 0) c.inputs.push_back(real({}));
    c.seed = i;
    c.rtol = 1e-5;
    check_op(c);
  }
  check_op(make("Pad", {real({2, 3, 4}), ints({1, 2, 0, 1}), absent(), ints({-1, 0})}));
  OpCase again = make("PadGrad", {real({4, 5})}, attrs({{"pads", std::vector<int64_t>{1, 1, 1, 1}}, {"mode", std::string("reflect")}, {"input_shape", std::vector<int64_t>{2, 3}}}));
  again.domain = "ai.engine";
  check_op(again);
}

TEST_CASE("Trilu keeps a triangle") {
  Random r(4);
  for (int i = 0; i < 24; ++i) {
    OpCase c = make("Trilu", {real({r.between(1, 3), r.between(1, 5), r.between(1, 5)})}, attrs({{"upper", int64_t(i % 2)}}));
    if (i % 3) c.inputs.push_back(host({static_cast<double>(r.between(-6, 6))}, {}));
    check_op(c);
  }
}

TEST_CASE("ReverseSequence reverses each sample's own steps") {
  for (int64_t batch_axis : {0, 1})
    for (uint64_t i = 0; i < 10; ++i) {
      OpInput lens = real({3}, 0, 4);
      lens.dtype = DType::kInt64;
      OpCase c = make("ReverseSequence", {real(batch_axis ? Shape{4, 3, 2} : Shape{3, 4, 2}), lens}, attrs({{"batch_axis", batch_axis}, {"time_axis", 1 - batch_axis}}));
      c.seed = i;
      check_op(c);
    }
}

TEST_CASE("TopK sorts, takes the first of equal elements and differentiates its values") {
  Random r(6);
  for (uint64_t i = 0; i < 24; ++i) {
    const int64_t axis = r.between(-3, 2);
    const Shape shape = {r.between(1, 4), r.between(1, 4), r.between(1, 5)};
    const int64_t k = r.between(0, shape[static_cast<size_t>(axis < 0 ? axis + 3 : axis)]);
    OpCase c = make("TopK", {real(shape), ints({k})}, attrs({{"axis", axis}, {"largest", int64_t(i % 2)}}), {true, i % 3 != 0});
    c.seed = i;
    check_op(c);
  }
  const auto equal = run_on_cpu(make("TopK", {given({4}, {1, 2, 2, 1}), ints({4})}, {}, {true, true}));
  CHECK(equal[1].to_ints() == std::vector<int64_t>{1, 2, 0, 3});
}

TEST_CASE("Range, EyeLike and OneHot give what their numbers say") {
  CHECK(run_on_cpu(make("Range", {host({10}, {}), host({3}, {}), host({-3}, {})}))[0].to_ints() == std::vector<int64_t>{10, 7, 4});
  const Tensor real_range = run_on_cpu(make("Range", {host({1}, {}, DType::kFloat32), host({2.1}, {}, DType::kFloat32), host({0.5}, {}, DType::kFloat32)}))[0];
  CHECK(real_range.element_count() == 3);
  CHECK(real_range.at(2) == 2);
  for (int64_t k : {-2, 0, 1}) check_forward(make("EyeLike", {real({3, 4})}, attrs({{"k", k}})));
  for (int64_t axis : {-1, 0, 1}) {
    OpInput at = given({2, 3}, {0, 4, -1, 5, -6, 2}, DType::kInt64);
    check_forward(make("OneHot", {at, host({5}, {}), given({2}, {-1, 3})}, attrs({{"axis", axis}})));
  }
}

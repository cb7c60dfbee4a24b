// Operators that move elements: Transpose, Concat, Split, Slice and their gradients.
#include <doctest/doctest.h>

#include <algorithm>
#include <limits>

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

}  // namespace

TEST_CASE("Transpose takes every order of axes") {
  check_op(make("Transpose", {real({3, 5})}));
  std::vector<int64_t> perm = {0, 1, 2, 3};
  do check_op(make("Transpose", {real({2, 3, 4, 5})}, attrs({{"perm", perm}})));
  while (std::next_permutation(perm.begin(), perm.end()));
  check_op(make("Transpose", {real({33, 1, 47})}, attrs({{"perm", std::vector<int64_t>{2, 0, 1}}})));
  check_forward(make("Transpose", {real({70, 300, 40})}, attrs({{"perm", std::vector<int64_t>{1, 0, 2}}})));
  check_forward(make("Transpose", {real({70, 300, 40})}, attrs({{"perm", std::vector<int64_t>{2, 1, 0}}})));
}

TEST_CASE("Concat joins along any axis in any layout, and Split undoes it") {
  Random r(5);
  for (int i = 0; i < 24; ++i) {
    const int64_t rank = r.between(1, 5), axis = r.between(-rank, rank - 1);
    const size_t at = static_cast<size_t>(axis < 0 ? axis + rank : axis);
    Shape shape;
    for (int64_t d = 0; d < rank; ++d) shape.push_back(r.between(1, 4));
    std::vector<OpInput> parts;
    std::vector<int64_t> sizes;
    for (int64_t k = r.between(1, 4); k > 0; --k) {
      shape[at] = r.between(0, 5);
      sizes.push_back(shape[at]);
      parts.push_back(real(shape));
    }
    check_op(make("Concat", parts, attrs({{"axis", axis}})));
    shape[at] = 0;
    for (int64_t s : sizes) shape[at] += s;
    if (shape[at] == 0) continue;
    std::vector<bool> wanted(sizes.size(), true);
    if (sizes.size() > 1) wanted[static_cast<size_t>(r.between(0, static_cast<int64_t>(sizes.size()) - 1))] = i % 2;
    check_op(make("Split", {real(shape), ints(sizes)}, attrs({{"axis", axis}}), wanted));
  }
  check_op(make("Split", {real({7, 2})}, attrs({{"num_outputs", int64_t{4}}}), {true, true, true, true}));
  check_op(make("Split", {real({2, 6})}, attrs({{"axis", int64_t{1}}}), {true, false, true}));
}

TEST_CASE("Slice steps forwards and backwards and its gradient lays the elements back") {
  Random r(7);
  for (int i = 0; i < 40; ++i) {
    const int64_t rank = r.between(1, 5);
    Shape shape;
    std::vector<int64_t> starts, ends, axes, steps;
    for (int64_t d = 0; d < rank; ++d) {
      shape.push_back(r.between(1, 6));
      if (r.between(0, 2) == 0) continue;
      axes.push_back(r.between(0, 1) ? d : d - rank);
      starts.push_back(r.between(-8, 8));
      ends.push_back(r.between(-8, 8));
      steps.push_back(r.pick(std::vector<int64_t>{1, 1, 2, 3, -1, -2}));
    }
    check_op(make("Slice", {real(shape), ints(starts), ints(ends), ints(axes), ints(steps)}));
    OpCase back = make("SliceGrad", {real({2, 3})}, attrs({{"starts", std::vector<int64_t>{1, 4}}, {"steps", std::vector<int64_t>{1, -2}}, {"input_shape", std::vector<int64_t>{3, 5}}}));
    back.domain = "ai.engine";
    if (i == 0) check_op(back);
  }
  const int64_t big = std::numeric_limits<int64_t>::max(), small = std::numeric_limits<int64_t>::min();
  check_op(make("Slice", {real({4, 5}), ints({0, -1}), ints({big, small}), ints({0, 1}), ints({2, -1})}));
  check_op(make("Slice", {real({4, 5}), ints({1}), ints({3})}));
}

TEST_CASE("Expand and Tile repeat, and their gradients add up") {
  check_op(make("Expand", {real({3, 1}), ints({2, 1, 6})}));
  check_op(make("Expand", {real({3, 1}), ints({3, 4})}));
  check_op(make("Expand", {real({}), ints({2, 3})}));
  check_op(make("Expand", {real({2, 3, 4}), ints({1})}));
  Random r(9);
  for (int i = 0; i < 24; ++i) {
    Shape shape;
    std::vector<int64_t> repeats, wide;
    for (int64_t d = r.between(1, 5); d > 0; --d) {
      shape.push_back(r.between(1, 4));
      repeats.push_back(r.between(1, 3));
      wide.push_back(shape.back() == 1 ? r.between(1, 3) : shape.back());
    }
    check_op(make("Tile", {real(shape), ints(repeats)}));
    check_op(make("Expand", {real(shape), ints(wide)}));
  }
}

TEST_CASE("Shape, Size and ConstantOfShape give what is known of a tensor") {
  CHECK(run_on_cpu(make("Shape", {real({2, 3, 4})}))[0].to_ints() == std::vector<int64_t>{2, 3, 4});
  CHECK(run_on_cpu(make("Shape", {real({2, 3, 4})}, attrs({{"start", int64_t{-2}}, {"end", int64_t{9}}})))[0].to_ints() == std::vector<int64_t>{3, 4});
  CHECK(run_on_cpu(make("Size", {real({2, 3, 4})}))[0].to_ints() == std::vector<int64_t>{24});
  const Tensor filled = run_on_cpu(make("ConstantOfShape", {ints({2, 2})}, attrs({{"value", Tensor::of<float>({1}, {2.5f})}})))[0];
  CHECK(filled.shape() == Shape{2, 2});
  CHECK(filled.at(3) == 2.5);
  for (const char* op : {"Shape", "Size"}) check_forward(make(op, {real({2, 0, 4})}));
  check_forward(make("ConstantOfShape", {ints({3})}));
}

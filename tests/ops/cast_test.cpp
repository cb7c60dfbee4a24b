// Cast and CastLike between every pair of element types, rounding included; gradients pass through floats.
#include <doctest/doctest.h>

#include "tests/support/op_check.h"

using namespace eng;
using namespace eng::test;

TEST_CASE("numbers keep their value in every type that can hold it") {
  const DType types[] = {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16, DType::kInt8, DType::kUint8, DType::kInt16,
                         DType::kUint16, DType::kInt32, DType::kUint32, DType::kInt64, DType::kUint64, DType::kBool};
  for (DType from : types)
    for (DType to : types) {
      const double top = from == DType::kBool || to == DType::kBool ? 1 : 100;  // exact in all of them
      OpInput x = given({5}, {0, 1, top, 1, 0}, from);
      x.differentiate = false;
      const Tensor y = run_on_cpu({.op = "Cast", .inputs = {x}, .attributes = attrs({{"to", static_cast<int64_t>(to)}})})[0];
      CHECK(y.dtype() == to);
      for (int64_t i = 0; i < 5; ++i) CHECK_MESSAGE(y.at(i) == x.values[static_cast<size_t>(i)], name_of(from), " to ", name_of(to));
      OpInput like = given({1}, {0}, to);
      const Tensor z = run_on_cpu({.op = "CastLike", .inputs = {x, like}})[0];
      CHECK(z.dtype() == to);
      for (int64_t i = 0; i < 5; ++i) CHECK(z.at(i) == x.values[static_cast<size_t>(i)]);
    }
}

TEST_CASE("fractions are cut towards zero and halves are rounded to even") {
  const Tensor n = run_on_cpu({.op = "Cast", .inputs = {given({4}, {1.9, -1.9, 0.5, -0.5})}, .attributes = attrs({{"to", int64_t{7}}})})[0];
  CHECK(n.to_ints() == std::vector<int64_t>{1, -1, 0, 0});
  const Tensor h = run_on_cpu({.op = "Cast", .inputs = {given({2}, {1.0 + 0x1p-11, 1.0 + 3 * 0x1p-11})}, .attributes = attrs({{"to", int64_t{10}}})})[0];
  CHECK(h.at(0) == 1.0);
  CHECK(h.at(1) == 1.0 + 0x1p-9);
}

TEST_CASE("gradients pass through casts between floats") {
  for (const Shape& shape : {Shape{3}, Shape{2, 3, 4, 5}}) {
    check_backward({.op = "Cast", .inputs = {real(shape)}, .attributes = attrs({{"to", static_cast<int64_t>(DType::kFloat64)}})});
    check_gradient({.op = "Cast", .inputs = {real(shape)}, .attributes = attrs({{"to", static_cast<int64_t>(DType::kFloat64)}})});
    OpInput like = given({1}, {0}, DType::kFloat64);
    like.differentiate = false;
    check_gradient({.op = "CastLike", .inputs = {real(shape), like}});
  }
}

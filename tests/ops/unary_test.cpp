// Functions of one operand: CPU against float64, gradients against finite differences, row-major and channels-last.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "graph/ops/op.h"
#include "tests/support/op_check.h"

using namespace eng;
using namespace eng::test;

namespace {

// Ranks 0 to 5, up to about 60 elements.
Shape random_shape(Random& r) {
  Shape s;
  for (int64_t rank = r.between(0, 5), left = 60; rank > 0; --rank) {
    s.push_back(r.between(1, std::min<int64_t>(5, left)));
    left = std::max<int64_t>(1, left / s.back());
  }
  return s;
}

struct Row {
  const char* op;
  const char* gradient;  // the fused node that its rule must use
  double low, high;
  Attributes attributes;
};

const std::vector<Row>& rows() {
  static const std::vector<Row> list = {
      {"Relu", "ReluGrad", -2, 2, {}},
      {"LeakyRelu", "LeakyReluGrad", -2, 2, {}},
      {"LeakyRelu", "LeakyReluGrad", -2, 2, attrs({{"alpha", 0.3F}})},
      {"Sigmoid", "SigmoidGrad", -6, 6, {}},
      {"Tanh", "TanhGrad", -3, 3, {}},
      {"HardSigmoid", "HardSigmoidGrad", -4, 4, {}},
      {"HardSigmoid", "HardSigmoidGrad", -4, 4, attrs({{"alpha", 1.0F / 6}, {"beta", 0.4F}})},
      {"HardSwish", "HardSwishGrad", -5, 5, {}},
      {"Elu", "EluGrad", -3, 3, attrs({{"alpha", 1.5F}})},
      {"Selu", "SeluGrad", -3, 3, {}},
      {"Selu", "SeluGrad", -3, 3, attrs({{"alpha", 1.2F}, {"gamma", 0.7F}})},
      {"Celu", "CeluGrad", -3, 3, attrs({{"alpha", 0.6F}})},
      {"ThresholdedRelu", "ThresholdedReluGrad", -2, 4, {}},
      {"Softplus", "SoftplusGrad", -8, 8, {}},
      {"Softsign", "SoftsignGrad", -4, 4, {}},
      {"Mish", "MishGrad", -5, 5, {}},
      {"Gelu", "GeluGrad", -4, 4, {}},
      {"Gelu", "GeluGrad", -4, 4, attrs({{"approximate", std::string("tanh")}})},
      {"Shrink", "ShrinkGrad", -2, 2, attrs({{"lambd", 0.7F}, {"bias", 0.2F}})},
      {"Exp", "ExpGrad", -4, 3, {}},
      {"Log", "LogGrad", 0.2, 9, {}},
      {"Sqrt", "SqrtGrad", 0.1, 9, {}},
      {"Reciprocal", "ReciprocalGrad", 0.3, 4, {}},
      {"Abs", "AbsGrad", -2, 2, {}},
      {"Erf", "ErfGrad", -3, 3, {}},
      {"Sin", "SinGrad", -4, 4, {}},
      {"Cos", "CosGrad", -4, 4, {}},
      {"Tan", "TanGrad", -1.2, 1.2, {}},
      {"Asin", "AsinGrad", -0.9, 0.9, {}},
      {"Acos", "AcosGrad", -0.9, 0.9, {}},
      {"Atan", "AtanGrad", -4, 4, {}},
      {"Sinh", "SinhGrad", -3, 3, {}},
      {"Cosh", "CoshGrad", -3, 3, {}},
      {"Asinh", "AsinhGrad", -4, 4, {}},
      {"Acosh", "AcoshGrad", 1.2, 5, {}},
      {"Atanh", "AtanhGrad", -0.9, 0.9, {}},
      {"Neg", "Neg", -2, 2, {}},
      {"Sign", nullptr, -2, 2, {}},
      {"Floor", nullptr, -3, 3, {}},
      {"Ceil", nullptr, -3, 3, {}},
      {"Round", nullptr, -3, 3, {}},
  };
  return list;
}

}  // namespace

TEST_CASE("unary functions and their gradients match float64 and finite differences in any layout") {
  uint64_t seed = 1;
  for (const Row& row : rows()) {
    Random r(seed);
    for (int i = 0; i < 20; ++i) {
      const Shape shape = i == 0 ? Shape{2, 3, 4, 5} : i == 1 ? Shape{1, 5, 3, 1} : random_shape(r);
      check_op({.op = row.op, .inputs = {real(shape, row.low, row.high)}, .attributes = row.attributes, .seed = seed++});
    }
  }
}

TEST_CASE("unary functions are right for sizes that use several threads") {
  for (const Row& row : rows()) check_forward({.op = row.op, .inputs = {real({3, 7, 41, 43}, row.low, row.high)}, .attributes = row.attributes});
  check_backward({.op = "Relu", .inputs = {real({3, 64, 41, 43})}});
  check_backward({.op = "HardSwish", .inputs = {real({3, 64, 41, 43}, -4, 4)}});
}

TEST_CASE("unary functions keep infinities, NaN and extremes") {
  const float inf = INFINITY, nan = NAN;
  auto y = [&](const char* op, std::vector<double> x) { return run_on_cpu({.op = op, .inputs = {given({static_cast<int64_t>(x.size())}, x)}})[0]; };
  auto check = [](const Tensor& t, std::vector<float> wanted) {
    for (size_t i = 0; i < wanted.size(); ++i) {
      if (std::isnan(wanted[i])) CHECK(std::isnan(t.data<float>()[i]));
      else CHECK(t.data<float>()[i] == wanted[i]);
    }
  };
  check(y("Exp", {-inf, -200, 0, 88.8, 200, inf, nan}), {0, 0, 1, inf, inf, inf, nan});
  check(y("Log", {0, -1, 1, inf, nan}), {-inf, nan, 0, inf, nan});
  check(y("Tanh", {-inf, -100, 0, 100, inf, nan}), {-1, -1, 0, 1, 1, nan});
  check(y("Sigmoid", {-inf, -200, 0, 200, inf, nan}), {0, 0, 0.5F, 1, 1, nan});
  check(y("Erf", {-inf, -20, 0, 20, inf, nan}), {-1, -1, 0, 1, 1, nan});
  check(y("Softplus", {-inf, 0, 1000, inf}), {0, std::log(2.0F), 1000, inf});
  check(y("Relu", {-inf, -1, inf, nan}), {0, 0, inf, nan});
  check(y("Round", {0.5, 1.5, 2.5, -0.5, -1.5, -2.5}), {0, 2, 2, -0.0F, -2, -2});
}

TEST_CASE("the derivative at a kink is PyTorch's") {
  auto slope = [](const char* op, double x) { return gradient_on_cpu({.op = op, .inputs = {given({1}, {x})}}, 0, {1}).at(0); };
  CHECK(slope("Relu", 0) == 0);
  CHECK(slope("Abs", 0) == 0);
  CHECK(slope("HardSwish", -3) == 0);
  CHECK(slope("HardSwish", 3) == doctest::Approx(1));
}

TEST_CASE("integers go through Abs, Neg, Sign and Relu") {
  auto y = [](const char* op, DType type, std::vector<double> x) { return run_on_cpu({.op = op, .inputs = {given({static_cast<int64_t>(x.size())}, x, type)}})[0].to_ints(); };
  CHECK(y("Abs", DType::kInt32, {-3, 0, 4}) == std::vector<int64_t>{3, 0, 4});
  CHECK(y("Abs", DType::kInt8, {-128, -127}) == std::vector<int64_t>{-128, 127});
  CHECK(y("Neg", DType::kInt64, {-3, 0, 4}) == std::vector<int64_t>{3, 0, -4});
  CHECK(y("Sign", DType::kInt16, {-3, 0, 4}) == std::vector<int64_t>{-1, 0, 1});
  CHECK(y("Relu", DType::kInt32, {-3, 0, 4}) == std::vector<int64_t>{0, 0, 4});
}

TEST_CASE("half precision is widened, computed and rounded once") {
  for (DType type : {DType::kFloat16, DType::kBFloat16}) {
    const Tensor y = run_on_cpu({.op = "Sigmoid", .inputs = {given({3}, {-1, 0, 2}, type)}})[0];
    CHECK(y.dtype() == type);
    const double unit = type == DType::kFloat16 ? 0x1p-11 : 0x1p-8;
    CHECK(y.at(0) == doctest::Approx(0.26894142137).epsilon(unit));
    CHECK(y.at(1) == 0.5);
    CHECK(y.at(2) == doctest::Approx(0.88079707798).epsilon(unit));
  }
}

TEST_CASE("Clip with both, one and no bound; ClipGrad; gradients of the bounds") {
  for (int kind = 0; kind < 4; ++kind)
    for (uint64_t i = 0; i < 8; ++i) {
      Random r(i);
      OpCase c{.op = "Clip", .inputs = {real(i == 0 ? Shape{2, 3, 4, 5} : random_shape(r), -3, 3)}, .seed = i};
      c.inputs.push_back(kind & 1 ? real({}, -1.5, -0.5) : absent());
      if (kind & 2) c.inputs.push_back(real(i % 2 ? Shape{} : Shape{1}, 0.5, 1.5));
      check_op(c);
    }
  const Tensor y = run_on_cpu({.op = "Clip", .inputs = {given({3}, {-9, 1, 9}, DType::kInt8), given({}, {-2}, DType::kInt8), given({}, {5}, DType::kInt8)}})[0];
  CHECK(y.to_ints() == std::vector<int64_t>{-2, 1, 5});
  const Tensor dx = gradient_on_cpu({.op = "Clip", .inputs = {given({5}, {-2, -1, 0, 1, 2}), given({}, {-1}), given({}, {1})}}, 0, {1, 1, 1, 1, 1});
  CHECK(dx.at(0) == 0);
  CHECK(dx.at(1) == 1);  // at a bound the gradient passes, as in PyTorch
  CHECK(dx.at(3) == 1);
  CHECK(dx.at(4) == 0);
  CHECK(find_op(kEngineDomain, "ClipGrad"));
}

TEST_CASE("PRelu with one, per-channel and full slopes; PReluGradData, PReluGradSlope") {
  const std::vector<std::pair<Shape, Shape>> shapes = {{{2, 3, 4, 5}, {3, 1, 1}}, {{2, 3, 4, 5}, {1}}, {{2, 3, 4, 5}, {2, 3, 4, 5}}, {{4, 3}, {3}},
                                                       {{4, 3}, {}}, {{2, 3, 4}, {1, 3, 1}}, {{5}, {5}}};
  for (uint64_t i = 0; i < 21; ++i)
    check_op({.op = "PRelu", .inputs = {real(shapes[i % shapes.size()].first), real(shapes[i % shapes.size()].second)}, .seed = i});
  CHECK(find_op(kEngineDomain, "PReluGradData"));
  CHECK(find_op(kEngineDomain, "PReluGradSlope"));
}

TEST_CASE("bad operands are refused with what was wanted") {
  Graph g;
  Builder b(g);
  ValueId x = g.add_value("x", DType::kFloat32, {2, 3});
  g.value(x).role = Role::kInput;
  ValueId slope = g.add_value("slope", DType::kFloat32, {4});
  g.value(slope).role = Role::kInput;
  b.op("PRelu", {x, slope});
  CHECK(b.status().message().find("[4] does not broadcast to X of shape [2,3]") != std::string::npos);
}

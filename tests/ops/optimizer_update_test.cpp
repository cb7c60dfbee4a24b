// Optimiser updates against the float64 reference, with clipping, decay and a gradient scale; ONNX's own training operators.
#include <doctest/doctest.h>

#include "tests/support/op_check.h"

using namespace eng;
using namespace eng::test;

namespace {

OpInput number(double value, DType type = DType::kFloat32) {
  OpInput i = given({}, {value}, type);
  i.keep_type = true;
  return i;
}

}  // namespace

TEST_CASE("every update rule equals the reference with each of its options") {
  const Shape s{7, 5};
  const OpInput w = real(s), g = real(s), lr = number(0.05), positive = real(s, 0.01, 1);
  for (bool clip : {false, true})
    for (bool l2 : {false, true})
      for (bool scaled : {false, true}) {
        auto run = [&](const char* op, std::vector<OpInput> inputs, size_t outputs, Attributes a) {
          if (clip) a.set("clip_value", 0.3F);
          if (l2) a.set("l2", 0.01F);
          if (scaled) inputs.push_back(number(0.5));
          check_forward({.op = op, .inputs = std::move(inputs), .attributes = a, .outputs = std::vector<bool>(outputs, true), .domain = kEngineDomain});
        };
        run("SgdUpdate", {w, g, lr}, 1, {});
        for (int64_t nesterov : {0, 1}) run("MomentumUpdate", {w, g, real(s), lr}, 2, attrs({{"momentum", 0.9F}, {"nesterov", nesterov}}));
        run("RmspropUpdate", {w, g, positive, lr}, 2, attrs({{"rho", 0.9F}, {"epsilon", 1e-7F}}));
        for (float decay : {0.0F, 0.01F})
          for (double step : {0.0, 1.0, 999.0})
            run("AdamUpdate", {w, g, real(s), positive, lr, number(step, DType::kInt64)}, 3,
                attrs({{"beta1", 0.9F}, {"beta2", 0.999F}, {"epsilon", 1e-7F}, {"weight_decay", decay}}));
      }
}

TEST_CASE("the gradients' norm is taken over all of them and scaled to the limit only above it") {
  const Tensor norm = run_on_cpu({.op = "GlobalNorm", .inputs = {given({2}, {3, 0}), given({1, 1}, {4})}, .domain = kEngineDomain})[0];
  CHECK(norm.at(0) == doctest::Approx(5));
  check_forward({.op = "GlobalNorm", .inputs = {real({300}), real({7, 5}), real({1})}, .domain = kEngineDomain});
  auto scale = [](double n) { return run_on_cpu({.op = "ClipScale", .inputs = {number(n)}, .attributes = attrs({{"max_norm", 2.0F}}), .domain = kEngineDomain})[0].at(0); };
  CHECK(scale(5) == doctest::Approx(0.4));
  CHECK(scale(1) == 1);
}

TEST_CASE("ONNX's training operators equal the reference for one and two tensors") {
  const Shape a{3, 2}, b{4};
  const OpInput rate = number(0.1), step = number(3, DType::kInt64);
  const std::string domain = "ai.onnx.preview.training";
  check_forward({.op = "Adagrad", .inputs = {rate, step, real(a), real(b), real(a), real(b), real(a, 0, 1), real(b, 0, 1)},
                 .attributes = attrs({{"norm_coefficient", 0.01F}, {"epsilon", 1e-5F}, {"decay_factor", 0.1F}}), .outputs = {true, true, true, true}, .domain = domain});
  for (const char* mode : {"standard", "nesterov"})
    check_forward({.op = "Momentum", .inputs = {rate, step, real(a), real(b), real(a), real(b), real(a), real(b)},
                   .attributes = attrs({{"alpha", 0.95F}, {"beta", 0.85F}, {"norm_coefficient", 0.01F}, {"mode", std::string(mode)}}), .outputs = {true, true, true, true}, .domain = domain});
  check_forward({.op = "Adam", .inputs = {rate, step, real(a), real(a), real(a), real(a, 0, 1)},
                 .attributes = attrs({{"alpha", 0.9F}, {"beta", 0.999F}, {"epsilon", 1e-2F}, {"norm_coefficient", 0.001F}}), .outputs = {true, true, true}, .domain = domain});
}

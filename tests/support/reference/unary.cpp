// Functions of one operand, in double from the definitions of the ONNX specification, and their gradients dy f'(x); where the
// engine's gradient reads y, f' is written by y. Also Clip and PRelu.
#include <cmath>

#include "tests/support/reference/reference.h"

namespace eng::test {
namespace {

double number(const RefCall& c, const char* name, float fallback) { return static_cast<double>(c.attr().get_float(name, fallback)); }

template <class F>
void map(RefCall& c, F f) {
  for (int64_t i = 0; i < c.out().count(); ++i) c.out()[i] = f(c.in(0)[i]);
}
// dx = dy slope(v)
template <class F>
void grad(RefCall& c, F slope) {
  for (int64_t i = 0; i < c.out().count(); ++i) c.out()[i] = c.in(0)[i] * slope(c.in(1)[i]);
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double softplus(double x) { return std::log1p(std::exp(-std::fabs(x))) + std::fmax(x, 0); }
constexpr float kSeluAlpha = 1.67326319217681884765625F, kSeluGamma = 1.05070102214813232421875F;
const double kPi = 3.14159265358979323846;

double gelu(double x, bool by_tanh) {
  if (by_tanh) return 0.5 * x * (1 + std::tanh(std::sqrt(2 / kPi) * (x + 0.044715 * std::pow(x, 3))));
  return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
}
double gelu_slope(double x, bool by_tanh) {
  if (!by_tanh) return 0.5 * (1 + std::erf(x / std::sqrt(2.0))) + x * std::exp(-x * x / 2) / std::sqrt(2 * kPi);
  const double inner = std::sqrt(2 / kPi) * (x + 0.044715 * std::pow(x, 3)), t = std::tanh(inner);
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * std::sqrt(2 / kPi) * (1 + 3 * 0.044715 * x * x);
}
bool by_tanh(const RefCall& c) { return c.attr().get_string("approximate", "none") == "tanh"; }
// Halves to even, without the rounding mode.
double round_even(double x) {
  const double low = std::floor(x), rest = x - low;
  if (rest != 0.5) return rest < 0.5 ? low : low + 1;
  return std::fmod(low, 2) == 0 ? low : low + 1;
}

void clip(RefCall& c) {
  map(c, [&](double x) {
    if (c.has(1)) x = std::fmax(x, c.in(1)[0]);
    if (c.has(2)) x = std::fmin(x, c.in(2)[0]);
    return x;
  });
}
void clip_grad(RefCall& c) {
  grad(c, [&](double x) { return (c.has(2) && x < c.in(2)[0]) || (c.has(3) && x > c.in(3)[0]) ? 0.0 : 1.0; });
}
void prelu(RefCall& c) {
  for (int64_t i = 0; i < c.out().count(); ++i) {
    const double x = c.in(0)[i];
    c.out()[i] = x < 0 ? x * c.in(1)[broadcast_index(i, c.out().shape, c.in(1).shape)] : x;
  }
}
void prelu_grad_data(RefCall& c) {
  for (int64_t i = 0; i < c.out().count(); ++i)
    c.out()[i] = c.in(0)[i] * (c.in(1)[i] < 0 ? c.in(2)[broadcast_index(i, c.out().shape, c.in(2).shape)] : 1);
}

#define ENG_F(NAME, FORMULA) {"", NAME, [](RefCall& c) { map(c, [&]([[maybe_unused]] double x) -> double { return static_cast<double>(FORMULA); }); }}
#define ENG_X(NAME, FORMULA) {"ai.engine", NAME "Grad", [](RefCall& c) { grad(c, [&]([[maybe_unused]] double x) -> double { return static_cast<double>(FORMULA); }); }}
#define ENG_Y(NAME, FORMULA) {"ai.engine", NAME "Grad", [](RefCall& c) { grad(c, [&](double y) -> double { return static_cast<double>(FORMULA); }); }}

const RefDef kDefs[] = {
    ENG_F("Relu", std::fmax(x, 0)),
    ENG_Y("Relu", y > 0 ? 1 : 0),
    ENG_F("LeakyRelu", x < 0 ? number(c, "alpha", 0.01F) * x : x),
    ENG_X("LeakyRelu", x < 0 ? number(c, "alpha", 0.01F) : 1),
    ENG_F("Sigmoid", sigmoid(x)),
    ENG_Y("Sigmoid", y * (1 - y)),
    ENG_F("Tanh", std::tanh(x)),
    ENG_Y("Tanh", 1 - y * y),
    ENG_F("HardSigmoid", std::fmax(0, std::fmin(1, number(c, "alpha", 0.2F) * x + number(c, "beta", 0.5F)))),
    ENG_Y("HardSigmoid", y > 0 && y < 1 ? number(c, "alpha", 0.2F) : 0),
    ENG_F("HardSwish", x * std::fmax(0, std::fmin(1, x / 6 + 0.5))),
    ENG_X("HardSwish", x <= -3 ? 0 : x >= 3 ? 1 : x / 3 + 0.5),
    ENG_F("Elu", x < 0 ? number(c, "alpha", 1) * std::expm1(x) : x),
    ENG_X("Elu", x < 0 ? number(c, "alpha", 1) * std::exp(x) : 1),
    ENG_F("Selu", number(c, "gamma", kSeluGamma) * (x < 0 ? number(c, "alpha", kSeluAlpha) * std::expm1(x) : x)),
    ENG_X("Selu", number(c, "gamma", kSeluGamma) * (x < 0 ? number(c, "alpha", kSeluAlpha) * std::exp(x) : 1)),
    ENG_F("Celu", std::fmax(0, x) + std::fmin(0, number(c, "alpha", 1) * std::expm1(x / number(c, "alpha", 1)))),
    ENG_X("Celu", x < 0 ? std::exp(x / number(c, "alpha", 1)) : 1),
    ENG_F("ThresholdedRelu", x > number(c, "alpha", 1) ? x : 0),
    ENG_X("ThresholdedRelu", x > number(c, "alpha", 1) ? 1 : 0),
    ENG_F("Softplus", softplus(x)),
    ENG_X("Softplus", sigmoid(x)),
    ENG_F("Softsign", x / (1 + std::fabs(x))),
    ENG_X("Softsign", std::pow(1 + std::fabs(x), -2)),
    ENG_F("Mish", x * std::tanh(softplus(x))),
    ENG_X("Mish", std::tanh(softplus(x)) + x * sigmoid(x) / std::pow(std::cosh(softplus(x)), 2)),
    ENG_F("Gelu", gelu(x, by_tanh(c))),
    ENG_X("Gelu", gelu_slope(x, by_tanh(c))),
    ENG_F("Shrink", x < -number(c, "lambd", 0.5F) ? x + number(c, "bias", 0) : x > number(c, "lambd", 0.5F) ? x - number(c, "bias", 0) : 0),
    ENG_X("Shrink", std::fabs(x) > number(c, "lambd", 0.5F) ? 1 : 0),
    ENG_F("Exp", std::exp(x)),
    ENG_Y("Exp", y),
    ENG_F("Log", std::log(x)),
    ENG_X("Log", 1 / x),
    ENG_F("Sqrt", std::sqrt(x)),
    ENG_Y("Sqrt", 0.5 / y),
    ENG_F("Reciprocal", 1 / x),
    ENG_Y("Reciprocal", -y * y),
    ENG_F("Abs", std::fabs(x)),
    ENG_X("Abs", x > 0 ? 1 : x < 0 ? -1 : 0),
    ENG_F("Erf", std::erf(x)),
    ENG_X("Erf", 2 / std::sqrt(kPi) * std::exp(-x * x)),
    ENG_F("Sin", std::sin(x)),
    ENG_X("Sin", std::cos(x)),
    ENG_F("Cos", std::cos(x)),
    ENG_X("Cos", -std::sin(x)),
    ENG_F("Tan", std::tan(x)),
    ENG_Y("Tan", 1 + y * y),
    ENG_F("Asin", std::asin(x)),
    ENG_X("Asin", 1 / std::sqrt(1 - x * x)),
    ENG_F("Acos", std::acos(x)),
    ENG_X("Acos", -1 / std::sqrt(1 - x * x)),
    ENG_F("Atan", std::atan(x)),
    ENG_X("Atan", 1 / (1 + x * x)),
    ENG_F("Sinh", std::sinh(x)),
    ENG_X("Sinh", std::cosh(x)),
    ENG_F("Cosh", std::cosh(x)),
    ENG_X("Cosh", std::sinh(x)),
    ENG_F("Asinh", std::asinh(x)),
    ENG_X("Asinh", 1 / std::sqrt(x * x + 1)),
    ENG_F("Acosh", std::acosh(x)),
    ENG_X("Acosh", 1 / std::sqrt(x * x - 1)),
    ENG_F("Atanh", std::atanh(x)),
    ENG_X("Atanh", 1 / (1 - x * x)),
    ENG_F("Neg", -x),
    ENG_F("Sign", x > 0 ? 1 : x < 0 ? -1 : 0),
    ENG_F("Floor", std::floor(x)),
    ENG_F("Ceil", std::ceil(x)),
    ENG_F("Round", round_even(x)),
    {"", "Clip", clip},
    {"ai.engine", "ClipGrad", clip_grad},
    {"", "PRelu", prelu},
    {"ai.engine", "PReluGradData", prelu_grad_data},
    {"ai.engine", "PReluGradSlope", [](RefCall& c) { grad(c, [](double x) { return std::fmin(x, 0); }); }},
};
#undef ENG_F
#undef ENG_X
#undef ENG_Y

}  // namespace

std::span<const RefDef> unary_reference() { return kDefs; }

}  // namespace eng::test

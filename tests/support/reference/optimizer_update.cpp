// Optimiser updates, element by element from Keras 2's formulas; norms; ai.onnx.preview.training's from the ONNX specification.
#include <cmath>

#include "tests/support/reference/reference.h"

namespace eng::test {
namespace {

// Attributes are float32 decimals: 0.9f stands for 0.9.
double number(const RefCall& c, const char* name, double fallback) {
  const float* f = c.attr().find<float>(name);
  return f ? std::round(static_cast<double>(*f) * 1e9) / 1e9 : fallback;
}

double gradient(const RefCall& c, int64_t i, int scale_input) {
  double g = c.in(1)[i] * (c.has(scale_input) ? c.in(scale_input)[0] : 1);
  const double limit = number(c, "clip_value", 0);
  if (limit > 0) g = std::fmax(-limit, std::fmin(limit, g));
  return g + number(c, "l2", 0) * c.in(0)[i];
}

void sgd(RefCall& c) {
  for (int64_t i = 0; i < c.out().count(); ++i) c.out()[i] = c.in(0)[i] - c.in(2)[0] * gradient(c, i, 3);
}
void momentum(RefCall& c) {
  const double m = number(c, "momentum", 0.9), lr = c.in(3)[0];
  for (int64_t i = 0; i < c.out().count(); ++i) {
    const double g = gradient(c, i, 4), v = m * c.in(2)[i] - lr * g;
    c.out(0)[i] = c.in(0)[i] + (c.attr().get_int("nesterov", 0) ? m * v - lr * g : v);
    c.out(1)[i] = v;
  }
}
void rmsprop(RefCall& c) {
  const double rho = number(c, "rho", 0.9), lr = c.in(3)[0];
  for (int64_t i = 0; i < c.out().count(); ++i) {
    const double g = gradient(c, i, 4), a = rho * c.in(2)[i] + (1 - rho) * g * g;
    c.out(0)[i] = c.in(0)[i] - lr * g / (std::sqrt(a) + number(c, "epsilon", 1e-7));
    c.out(1)[i] = a;
  }
}
void adam(RefCall& c) {
  const double b1 = number(c, "beta1", 0.9), b2 = number(c, "beta2", 0.999), lr = c.in(4)[0], t = c.in(5)[0] + 1;
  for (int64_t i = 0; i < c.out().count(); ++i) {
    const double g = gradient(c, i, 6), w = c.in(0)[i];
    const double m = b1 * c.in(2)[i] + (1 - b1) * g, v = b2 * c.in(3)[i] + (1 - b2) * g * g;
    const double rate = lr * std::sqrt(1 - std::pow(b2, t)) / (1 - std::pow(b1, t));
    c.out(0)[i] = w - rate * m / (std::sqrt(v) + number(c, "epsilon", 1e-7)) - lr * number(c, "weight_decay", 0) * w;
    c.out(1)[i] = m;
    c.out(2)[i] = v;
  }
}
void global_norm(RefCall& c) {
  double sum = 0;
  for (int k = 0; k < c.in_count(); ++k)
    for (double v : c.in(k).v) sum += v * v;
  c.out()[0] = std::sqrt(sum);
}
void clip_scale(RefCall& c) {
  const double most = number(c, "max_norm", 1);
  c.out()[0] = c.in(0)[0] > most ? most / c.in(0)[0] : 1;
}

// Inputs R, T, then the groups X, G, S (and H); outputs X', S' (and H').
void preview(RefCall& c, const std::string& kind) {
  const int each = kind == "Adam" ? 4 : 3, groups = (c.in_count() - 2) / each;
  const double r = c.in(0)[0], t = c.in(1)[0], alpha = number(c, "alpha", 0.9), beta = number(c, "beta", 0.999);
  const double epsilon = number(c, "epsilon", 1e-6), norm = number(c, "norm_coefficient", 0);
  for (int k = 0; k < groups; ++k)
    for (int64_t i = 0; i < c.in(2 + k).count(); ++i) {
      const double x = c.in(2 + k)[i], g = norm * x + c.in(2 + groups + k)[i], s = c.in(2 + 2 * groups + k)[i];
      if (kind == "Adam") {
        const double v = alpha * s + (1 - alpha) * g, h = beta * c.in(2 + 3 * groups + k)[i] + (1 - beta) * g * g;
        const double rate = t > 0 ? r * std::sqrt(1 - std::pow(beta, t)) / (1 - std::pow(alpha, t)) : r;
        c.out(k)[i] = (1 - number(c, "norm_coefficient_post", 0)) * (x - rate * v / (std::sqrt(h) + epsilon));
        c.out(groups + k)[i] = v;
        c.out(2 * groups + k)[i] = h;
      } else if (kind == "Adagrad") {
        const double h = s + g * g;
        c.out(k)[i] = x - r / (1 + t * number(c, "decay_factor", 0)) * g / (std::sqrt(h) + epsilon);
        c.out(groups + k)[i] = h;
      } else {
        const double v = alpha * s + (t > 0 ? beta : 1) * g;
        c.out(k)[i] = x - r * (c.attr().get_string("mode", "") == "nesterov" ? g + alpha * v : v);
        c.out(groups + k)[i] = v;
      }
    }
}

}  // namespace

std::span<const RefDef> optimizer_update_reference() {
  static const RefDef defs[] = {
      {"ai.engine", "SgdUpdate", sgd},
      {"ai.engine", "MomentumUpdate", momentum},
      {"ai.engine", "RmspropUpdate", rmsprop},
      {"ai.engine", "AdamUpdate", adam},
      {"ai.engine", "GlobalNorm", global_norm},
      {"ai.engine", "ClipScale", clip_scale},
      {"ai.onnx.preview.training", "Adam", [](RefCall& c) { preview(c, "Adam"); }},
      {"ai.onnx.preview.training", "Adagrad", [](RefCall& c) { preview(c, "Adagrad"); }},
      {"ai.onnx.preview.training", "Momentum", [](RefCall& c) { preview(c, "Momentum"); }},
  };
  return defs;
}

}  // namespace eng::test

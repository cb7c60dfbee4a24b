// What the float64 LSTM, GRU and RNN share: activations and their slopes, and operands indexed by (direction, sample, step)
// in either layout. Each sample is run on its own, the way ONNX words it: its own first `length` steps, reversed for the reverse direction.
#pragma once

#include <algorithm>
#include <cctype>
#include <cmath>
#include <string>

#include "tests/support/reference/reference.h"

namespace eng::test {

struct RefActivation {
  std::string name;
  double alpha = 0, beta = 0, clip = 0;
  double raw(double x) const {
    if (name == "relu") return std::max(0.0, x);
    if (name == "tanh") return std::tanh(x);
    if (name == "sigmoid") return 1 / (1 + std::exp(-x));
    if (name == "affine") return alpha * x + beta;
    if (name == "leakyrelu") return x < 0 ? alpha * x : x;
    if (name == "thresholdedrelu") return x > alpha ? x : 0;
    if (name == "scaledtanh") return alpha * std::tanh(beta * x);
    if (name == "hardsigmoid") return std::clamp(alpha * x + beta, 0.0, 1.0);
    if (name == "elu") return x < 0 ? alpha * (std::exp(x) - 1) : x;
    if (name == "softsign") return x / (1 + std::fabs(x));
    return std::log(1 + std::exp(x));  // softplus
  }
  double operator()(double x) const { return raw(clip > 0 ? std::clamp(x, -clip, clip) : x); }
  // The slope where the result is y: every f here is strictly monotonic where its slope is not 0.
  double slope(double y) const {
    if (clip > 0 && (y == raw(-clip) || y == raw(clip))) return 0;
    if (name == "relu") return y > 0;
    if (name == "tanh") return 1 - y * y;
    if (name == "sigmoid") return y - y * y;
    if (name == "affine") return alpha;
    if (name == "leakyrelu") return y < 0 ? alpha : 1;
    if (name == "thresholdedrelu") return y > 0;
    if (name == "scaledtanh") return beta * (alpha * alpha - y * y) / alpha;
    if (name == "hardsigmoid") return y > 0 && y < 1 ? alpha : 0;
    if (name == "elu") return y < 0 ? y + alpha : 1;
    if (name == "softsign") return std::pow(1 - std::fabs(y), 2);
    return 1 - std::exp(-y);  // softplus
  }
};

struct RefRecurrent {
  const RefCall& c;
  int64_t steps, batch, input, hidden, directions, rows;
  bool batch_first, reverse_only;
  std::vector<RefActivation> activations;
  size_t per_direction;

  RefRecurrent(const RefCall& call, const std::vector<std::string>& defaults) : c(call), per_direction(defaults.size()) {
    batch_first = c.attr().get_int("layout", 0) == 1;
    steps = c.in(0).dim(batch_first ? 1 : 0);
    batch = c.in(0).dim(batch_first ? 0 : 1);
    input = c.in(0).dim(2);
    directions = c.in(1).dim(0);
    rows = c.in(1).dim(1);
    hidden = c.in(2).dim(2);
    reverse_only = c.attr().get_string("direction", "forward") == "reverse";
    const auto* names = c.attr().find<std::vector<std::string>>("activations");
    const auto alphas = c.attr().get_floats("activation_alpha"), betas = c.attr().get_floats("activation_beta");
    size_t a = 0, b = 0;
    for (size_t i = 0; i < defaults.size() * static_cast<size_t>(directions); ++i) {
      RefActivation f;
      f.name = names ? (*names)[i] : defaults[i % defaults.size()];
      for (char& ch : f.name) ch = static_cast<char>(std::tolower(static_cast<unsigned char>(ch)));
      f.clip = c.attr().get_float("clip", 0);
      const bool one = f.name == "leakyrelu" || f.name == "thresholdedrelu" || f.name == "elu";
      const bool two = f.name == "affine" || f.name == "scaledtanh" || f.name == "hardsigmoid";
      f.alpha = f.name == "leakyrelu" ? double(0.01f) : f.name == "hardsigmoid" ? double(0.2f) : 1;
      f.beta = f.name == "hardsigmoid" ? 0.5 : f.name == "scaledtanh" ? 1 : 0;
      if ((one || two) && a < alphas.size()) f.alpha = alphas[a++];
      if (two && b < betas.size()) f.beta = betas[b++];
      activations.push_back(f);
    }
  }
  const RefActivation& f(int64_t d, size_t i) const { return activations[static_cast<size_t>(d) * per_direction + i]; }
  bool reversed(int64_t d) const { return d == 1 || reverse_only; }
  int64_t length(int lens_input, int64_t b) const { return c.has(lens_input) ? static_cast<int64_t>(c.in(lens_input)[b]) : steps; }
  // The time of a sample's k-th processed step.
  int64_t time(int64_t d, int64_t k, int64_t length) const { return reversed(d) ? length - 1 - k : k; }
  // A state operand of one sample; zeros where it is omitted.
  std::vector<double> state(int operand, int64_t d, int64_t b) const {
    std::vector<double> out(static_cast<size_t>(hidden), 0.0);
    if (c.has(operand))
      for (int64_t j = 0; j < hidden; ++j) out[static_cast<size_t>(j)] = c.in(operand)[state_at(d, b, j)];
    return out;
  }
  int64_t x_at(int64_t t, int64_t b, int64_t i) const { return ((batch_first ? b * steps + t : t * batch + b)) * input + i; }
  int64_t y_at(int64_t d, int64_t t, int64_t b, int64_t j) const {
    return (batch_first ? (b * steps + t) * directions + d : (t * directions + d) * batch + b) * hidden + j;
  }
  int64_t state_at(int64_t d, int64_t b, int64_t j) const { return (batch_first ? b * directions + d : d * batch + b) * hidden + j; }
  int64_t w_at(int64_t d, int64_t row, int64_t i) const { return (d * rows + row) * input + i; }
  int64_t r_at(int64_t d, int64_t row, int64_t j) const { return (d * rows + row) * hidden + j; }
};

}  // namespace eng::test

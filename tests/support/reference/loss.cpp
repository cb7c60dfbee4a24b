// Losses by their definitions: probabilities, then logarithms, then weighted means; gradients by the chain rule through log softmax.
#include <algorithm>
#include <cmath>

#include "tests/support/reference/reference.h"

namespace eng::test {
namespace {

struct Scores {
  int64_t samples, classes, inner;
  explicit Scores(const Shape& s) : samples(s[0]), classes(s[1]), inner(element_count(s) / std::max<int64_t>(1, s[0] * s[1])) {}
  int64_t positions() const { return samples * inner; }
  int64_t at(int64_t p, int64_t k) const { return (p / inner * classes + k) * inner + p % inner; }
};

// log softmax of position p
std::vector<double> log_probabilities(const RefTensor& x, const Scores& s, int64_t p) {
  double most = -INFINITY, sum = 0;
  for (int64_t k = 0; k < s.classes; ++k) most = std::fmax(most, x[s.at(p, k)]);
  for (int64_t k = 0; k < s.classes; ++k) sum += std::exp(x[s.at(p, k)] - most);
  std::vector<double> out;
  for (int64_t k = 0; k < s.classes; ++k) out.push_back(x[s.at(p, k)] - most - std::log(sum));
  return out;
}

// The target distribution of position p in SoftmaxCrossEntropy.
std::vector<double> target(const RefCall& c, const RefTensor& labels, const Scores& s, int64_t p) {
  const double smoothing = static_cast<double>(c.attr().get_float("label_smoothing", 0));
  std::vector<double> t;
  for (int64_t k = 0; k < s.classes; ++k) {
    const double raw = is_floating(labels.dtype) ? labels[s.at(p, k)] : (static_cast<int64_t>(labels[p]) == k ? 1.0 : 0.0);
    t.push_back(raw * (1 - smoothing) + smoothing / static_cast<double>(s.classes));
  }
  return t;
}

void cross_entropy(RefCall& c) {
  const Scores s(c.in(0).shape);
  double sum = 0;
  for (int64_t p = 0; p < s.positions(); ++p) {
    const auto log_p = log_probabilities(c.in(0), s, p), t = target(c, c.in(1), s, p);
    double loss = 0;
    for (size_t k = 0; k < t.size(); ++k)
      if (t[k] != 0) loss -= t[k] * log_p[k];
    if (c.wants(1)) c.out(1)[p] = loss;
    sum += loss;
  }
  c.out(0)[0] = sum / static_cast<double>(s.positions());
}

void cross_entropy_grad(RefCall& c) {
  const Scores s(c.in(1).shape);
  for (int64_t p = 0; p < s.positions(); ++p) {
    const auto log_p = log_probabilities(c.in(1), s, p), t = target(c, c.in(2), s, p);
    double scale = c.has(0) ? c.in(0)[0] / static_cast<double>(s.positions()) : 0, mass = 0;
    if (c.has(3)) scale += c.in(3)[p];
    for (double v : t) mass += v;
    for (int64_t k = 0; k < s.classes; ++k)
      c.out()[s.at(p, k)] = scale * (mass * std::exp(log_p[static_cast<size_t>(k)]) - t[static_cast<size_t>(k)]);
  }
}

// ONNX's: weight of each position, 0 where ignored.
std::vector<double> weights(const RefCall& c, const RefTensor& labels, int weight_input, int64_t positions) {
  std::vector<double> w;
  for (int64_t p = 0; p < positions; ++p) {
    const auto l = static_cast<int64_t>(labels[p]);
    const bool ignored = c.attr().has("ignore_index") && l == c.attr().get_int("ignore_index", 0);
    w.push_back(ignored ? 0 : c.has(weight_input) ? c.in(weight_input)[l] : 1);
  }
  return w;
}

void onnx_loss(RefCall& c, bool softmax) {
  const Scores s(c.in(0).shape);
  const auto w = weights(c, c.in(1), 2, s.positions());
  const std::string reduction = c.attr().get_string("reduction", "mean");
  double sum = 0, weight = 0;
  for (int64_t p = 0; p < s.positions(); ++p) {
    std::vector<double> log_p;
    if (softmax) log_p = log_probabilities(c.in(0), s, p);
    else for (int64_t k = 0; k < s.classes; ++k) log_p.push_back(c.in(0)[s.at(p, k)]);
    const double wp = w[static_cast<size_t>(p)];
    const double loss = wp == 0 ? 0 : -wp * log_p[static_cast<size_t>(c.in(1)[p])];
    if (softmax && c.wants(1))
      for (int64_t k = 0; k < s.classes; ++k) c.out(1)[s.at(p, k)] = log_p[static_cast<size_t>(k)];
    if (reduction == "none") c.out(0)[p] = loss;
    sum += loss;
    weight += wp;
  }
  if (reduction != "none") c.out(0)[0] = reduction == "mean" ? sum / weight : sum;
}

void onnx_grad(RefCall& c, bool softmax) {
  const Scores s(c.in(1).shape);
  const auto w = weights(c, c.in(2), 3, s.positions());
  const std::string reduction = c.attr().get_string("reduction", "mean");
  double weight = 0;
  for (double v : w) weight += v;
  for (int64_t p = 0; p < s.positions(); ++p) {
    const double wp = w[static_cast<size_t>(p)];
    if (wp == 0) continue;
    const double d = wp * c.in(0)[reduction == "none" ? p : 0] / (reduction == "mean" ? weight : 1);
    const auto log_p = log_probabilities(c.in(1), s, p);
    for (int64_t k = 0; k < s.classes; ++k) {
      const double hit = static_cast<int64_t>(c.in(2)[p]) == k ? 1 : 0;
      c.out()[s.at(p, k)] = d * ((softmax ? std::exp(log_p[static_cast<size_t>(k)]) : 0) - hit);
    }
  }
}

template <class F>
void mean_of(RefCall& c, F f) {
  double sum = 0;
  for (int64_t i = 0; i < c.in(0).count(); ++i) sum += f(c.in(0)[i], c.in(1)[i]);
  c.out()[0] = sum / static_cast<double>(c.in(0).count());
}
template <class F>
void mean_grad(RefCall& c, F slope) {
  for (int64_t i = 0; i < c.in(1).count(); ++i) c.out()[i] = c.in(0)[0] * slope(c.in(1)[i], c.in(2)[i]) / static_cast<double>(c.in(1).count());
}

// -(t log p + (1-t) log(1-p)) with log p = -log(1 + exp(-x))
double binary(double x, double t) {
  auto log_sigmoid = [](double v) { return v > 0 ? -std::log1p(std::exp(-v)) : v - std::log1p(std::exp(v)); };
  return -(t * log_sigmoid(x) + (1 - t) * log_sigmoid(-x));
}

}  // namespace

std::span<const RefDef> loss_reference() {
  static const RefDef defs[] = {
      {"ai.engine", "SoftmaxCrossEntropy", cross_entropy},
      {"ai.engine", "SoftmaxCrossEntropyGrad", cross_entropy_grad},
      {"", "SoftmaxCrossEntropyLoss", [](RefCall& c) { onnx_loss(c, true); }},
      {"", "NegativeLogLikelihoodLoss", [](RefCall& c) { onnx_loss(c, false); }},
      {"ai.engine", "SoftmaxCrossEntropyLossGrad", [](RefCall& c) { onnx_grad(c, true); }},
      {"ai.engine", "NegativeLogLikelihoodLossGrad", [](RefCall& c) { onnx_grad(c, false); }},
      {"ai.engine", "SigmoidBinaryCrossEntropy", [](RefCall& c) { mean_of(c, binary); }},
      {"ai.engine", "SigmoidBinaryCrossEntropyGrad", [](RefCall& c) { mean_grad(c, [](double x, double t) { return 1 / (1 + std::exp(-x)) - t; }); }},
      {"ai.engine", "MeanSquaredError", [](RefCall& c) { mean_of(c, [](double x, double t) { return (x - t) * (x - t); }); }},
      {"ai.engine", "MeanSquaredErrorGrad", [](RefCall& c) { mean_grad(c, [](double x, double t) { return 2 * (x - t); }); }},
      {"ai.engine", "MeanAbsoluteError", [](RefCall& c) { mean_of(c, [](double x, double t) { return std::fabs(x - t); }); }},
      {"ai.engine", "MeanAbsoluteErrorGrad", [](RefCall& c) { mean_grad(c, [](double x, double t) { return x > t ? 1 : x < t ? -1 : 0; }); }},
  };
  return defs;
}

}  // namespace eng::test

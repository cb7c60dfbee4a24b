// See scores.h.
#include "tools/common/scores.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace eng::tools {
namespace {

enum class Kind { kProbabilities, kLogProbabilities, kLogits };

Kind kind_of(const Probabilities& p) {
  bool probabilities = true, logs = p.columns > 1;
  for (int64_t r = 0; r < p.rows && (probabilities || logs); ++r) {
    double sum = 0, exponentials = 0;
    const double* row = &p.values[static_cast<size_t>(r * p.columns)];
    if (std::any_of(row, row + p.columns, [](double v) { return std::isnan(v); })) continue;  // says nothing about the others
    for (int64_t c = 0; c < p.columns; ++c) {
      const double v = row[c];
      if (!(v >= 0 && v <= 1)) probabilities = false;
      if (v > 1e-6) logs = false;
      sum += v;
      exponentials += std::exp(v);
    }
    if (p.columns > 1 && std::fabs(sum - 1) > 1e-3) probabilities = false;
    if (std::fabs(exponentials - 1) > 1e-3) logs = false;
  }
  return probabilities ? Kind::kProbabilities : logs ? Kind::kLogProbabilities : Kind::kLogits;
}

void softmax(double* row, int64_t n) {
  const double top = *std::max_element(row, row + n);
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += row[i] = std::exp(row[i] - top);
  for (int64_t i = 0; i < n; ++i) row[i] /= sum;
}

// Mann-Whitney: mean rank of the positives.
double area(const std::vector<double>& scores, const std::vector<bool>& positive) {
  std::vector<size_t> order(scores.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return scores[a] < scores[b]; });
  double ranks = 0, positives = 0;
  for (size_t begin = 0; begin < order.size();) {
    size_t end = begin;
    while (end < order.size() && scores[order[end]] == scores[order[begin]]) ++end;
    const double rank = (static_cast<double>(begin) + static_cast<double>(end) + 1) / 2;
    for (size_t i = begin; i < end; ++i) {
      if (positive[order[i]]) ranks += rank, positives += 1;
    }
    begin = end;
  }
  const double negatives = static_cast<double>(scores.size()) - positives;
  return (ranks - positives * (positives + 1) / 2) / (positives * negatives);
}

}  // namespace

Result<Probabilities> to_probabilities(const Tensor& output, std::string& note) {
  Probabilities p;
  if (output.shape().empty()) return invalid("the output is a single number, not a row a sample");
  p.rows = output.shape()[0];
  p.columns = p.rows > 0 ? output.element_count() / p.rows : 0;
  if (p.rows == 0 || p.columns == 0) return invalid("the output is empty");
  p.values.resize(static_cast<size_t>(output.element_count()));
  for (int64_t i = 0; i < output.element_count(); ++i) p.values[static_cast<size_t>(i)] = output.at(i);
  switch (kind_of(p)) {
    case Kind::kProbabilities: note = "the output holds probabilities"; break;
    case Kind::kLogProbabilities:
      note = "the output holds log-probabilities";
      for (double& v : p.values) v = std::exp(v);
      break;
    case Kind::kLogits:
      note = p.columns == 1 ? "the output is taken as logits: sigmoid" : "the output is taken as logits: softmax";
      if (p.columns == 1) for (double& v : p.values) v = 1 / (1 + std::exp(-v));
      else for (int64_t r = 0; r < p.rows; ++r) softmax(&p.values[static_cast<size_t>(r * p.columns)], p.columns);
      break;
  }
  return p;
}

int64_t rows_without_numbers(const Tensor& output, int64_t& first) {
  if (output.shape().empty() || output.shape()[0] == 0 || !is_floating(output.dtype())) return 0;
  const int64_t rows = output.shape()[0], columns = output.element_count() / rows;
  int64_t count = 0;
  for (int64_t r = 0; r < rows; ++r) {
    bool nan = false;
    for (int64_t c = 0; c < columns && !nan; ++c) nan = std::isnan(output.at(r * columns + c));
    if (nan && count++ == 0) first = r;
  }
  return count;
}

int64_t predicted_class(const Probabilities& p, int64_t row) {
  const double* begin = &p.values[static_cast<size_t>(row * p.columns)];
  if (std::any_of(begin, begin + p.columns, [](double v) { return std::isnan(v); })) return -1;
  return p.columns == 1 ? *begin > 0.5 : std::max_element(begin, begin + p.columns) - begin;
}

double accuracy(const Probabilities& p, const std::vector<int64_t>& labels) {
  int64_t right = 0;
  for (int64_t r = 0; r < p.rows; ++r) right += predicted_class(p, r) == labels[static_cast<size_t>(r)];
  return static_cast<double>(right) / static_cast<double>(p.rows);
}

double log_loss(const Probabilities& p, const std::vector<int64_t>& labels) {
  double sum = 0;
  for (int64_t r = 0; r < p.rows; ++r) {
    const int64_t label = labels[static_cast<size_t>(r)];
    const double one = p.values[static_cast<size_t>(r * p.columns + (p.columns == 1 ? 0 : label))];
    const double likely = p.columns == 1 && label == 0 ? 1 - one : one;
    sum -= std::log(std::clamp(likely, 1e-15, 1 - 1e-15));
  }
  return sum / static_cast<double>(p.rows);
}

Result<double> area_under_curve(const Probabilities& p, const std::vector<int64_t>& labels) {
  const int64_t classes = std::max<int64_t>(p.columns, 2);
  double sum = 0;
  const int64_t first = classes == 2 ? 1 : 0;
  for (int64_t c = first; c < classes; ++c) {
    std::vector<double> scores;
    std::vector<bool> positive;
    for (int64_t r = 0; r < p.rows; ++r) {
      scores.push_back(p.values[static_cast<size_t>(r * p.columns + (p.columns == 1 ? 0 : c))]);
      positive.push_back(labels[static_cast<size_t>(r)] == c);
    }
    const auto unordered = std::count_if(scores.begin(), scores.end(), [](double s) { return std::isnan(s); });
    if (unordered > 0) return invalid("auc is not defined: the scores of ", unordered, " of ", p.rows, " samples are no numbers (NaN)");
    const auto count = std::count(positive.begin(), positive.end(), true);
    if (count == 0 || count == p.rows) return invalid("auc is not defined: ", count, " of ", p.rows, " samples are of class ", c);
    sum += area(scores, positive);
  }
  return sum / static_cast<double>(classes - first);
}

}  // namespace eng::tools

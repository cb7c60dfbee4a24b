// First contents of weights for the model generators: Keras's defaults (Glorot uniform for kernels, orthogonal for recurrent
// kernels), from a generator whose numbers are the same with every compiler, so that one seed always gives one file.
// Add another initialiser here as one function that fills a Tensor.
#pragma once

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "graph/base/tensor.h"

namespace eng::models {

// std::mt19937_64 is fully specified by the standard, its distributions are not: they are written out here.
class Random {
 public:
  explicit Random(uint64_t seed) : bits_(seed) {}
  // In [0, 1), 53 random bits.
  double uniform() { return static_cast<double>(bits_() >> 11) * 0x1.0p-53; }
  // Mean 0, deviation 1 (Box-Muller, the cosine half).
  double normal() {
    const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform()));
    return radius * std::cos(6.283185307179586 * uniform());
  }

 private:
  std::mt19937_64 bits_;
};

// U(-limit, limit) with limit = sqrt(6 / (fan_in + fan_out)).
inline Tensor glorot_uniform(Random& random, Shape shape, int64_t fan_in, int64_t fan_out) {
  Tensor t(DType::kFloat32, std::move(shape));
  const double limit = std::sqrt(6.0 / static_cast<double>(fan_in + fan_out));
  float* out = t.mutable_data<float>();
  for (int64_t i = 0; i < t.element_count(); ++i) out[i] = static_cast<float>(limit * (2.0 * random.uniform() - 1.0));
  return t;
}

// `columns` orthonormal vectors of length `rows` (rows >= columns), stored one after another; modified Gram-Schmidt, twice
// each, on normal random vectors, which gives the uniform distribution over such sets.
inline std::vector<double> orthonormal_vectors(Random& random, int64_t rows, int64_t columns) {
  std::vector<double> q(static_cast<size_t>(rows * columns));
  for (double& v : q) v = random.normal();
  for (int64_t c = 0; c < columns; ++c) {
    double* v = q.data() + c * rows;
    for (int pass = 0; pass < 2; ++pass)
      for (int64_t k = 0; k < c; ++k) {
        const double* u = q.data() + k * rows;
        double dot = 0;
        for (int64_t i = 0; i < rows; ++i) dot += u[i] * v[i];
        for (int64_t i = 0; i < rows; ++i) v[i] -= dot * u[i];
      }
    double norm = 0;
    for (int64_t i = 0; i < rows; ++i) norm += v[i] * v[i];
    norm = std::sqrt(norm);
    for (int64_t i = 0; i < rows; ++i) v[i] /= norm;
  }
  return q;
}

inline Tensor filled(Shape shape, float value) {
  Tensor t(DType::kFloat32, std::move(shape));
  float* out = t.mutable_data<float>();
  for (int64_t i = 0; i < t.element_count(); ++i) out[i] = value;
  return t;
}

}  // namespace eng::models

// Elementary functions in float32 without branches or tables, so that a loop over them becomes vector code, and the same names
// in double through the standard library. Measured against double over all exponents (tests/backends/vector_math_test.cpp):
// exp 1.1, log 1, tanh 1.5, sigmoid 2.5, erf 1.1, softplus 2 units in the last place. Infinities, NaN and subnormal numbers are right.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace eng::cpu {

inline float two_to(float n) {  // 2^n for an integer n in [-126, 127]
  return std::bit_cast<float>((static_cast<int32_t>(n) + 127) << 23);
}

// exp(x) = 2^n exp(r), |r| <= ln 2 / 2, with a polynomial of degree 7. 2^n is multiplied in two halves, for subnormal results.
inline float fast_exp(float x) {
  const float c = x > 89.0f ? 89.0f : (x < -104.0f ? -104.0f : x);  // keeps NaN
  const float shift = 12582912.0f;                                   // 1.5 * 2^23: adding it rounds to an integer
  const float n = (c * 1.44269504088896341f + shift) - shift;
  float r = std::fma(n, -0.693145751953125f, c);
  r = std::fma(n, -1.42860682030941723212e-6f, r);
  float p = 1.9875691500e-4f;
  p = std::fma(p, r, 1.3981999507e-3f);
  p = std::fma(p, r, 8.3334519073e-3f);
  p = std::fma(p, r, 4.1665795894e-2f);
  p = std::fma(p, r, 1.6666665459e-1f);
  p = std::fma(p, r, 5.0000001201e-1f);
  p = std::fma(p, r * r, r) + 1.0f;
  const float half = (n * 0.5f + shift) - shift;
  const float safe = n == n ? half : 0.0f, rest = n == n ? n - half : 0.0f;  // NaN must not be turned into an integer
  const float y = p * two_to(safe) * two_to(rest);
  return x > 88.72283935f ? std::numeric_limits<float>::infinity() : y;
}
inline double fast_exp(double x) { return std::exp(x); }

// log(x) = e ln 2 + log(m), m in [sqrt(1/2), sqrt(2)).
inline float fast_log(float x) {
  const bool tiny = x < 1.17549435e-38f;
  const float scaled = tiny ? x * 8388608.0f : x;
  const uint32_t bits = std::bit_cast<uint32_t>(scaled);
  const uint32_t lifted = bits - 0x3f3504f3u;  // so that the exponent field counts from sqrt(1/2)
  const float e = static_cast<float>(static_cast<int32_t>(lifted) >> 23) - (tiny ? 23.0f : 0.0f);
  const float m = std::bit_cast<float>((lifted & 0x007fffffu) + 0x3f3504f3u) - 1.0f;
  const float z = m * m;
  float p = 7.0376836292e-2f;
  p = std::fma(p, m, -1.1514610310e-1f);
  p = std::fma(p, m, 1.1676998740e-1f);
  p = std::fma(p, m, -1.2420140846e-1f);
  p = std::fma(p, m, 1.4249322787e-1f);
  p = std::fma(p, m, -1.6668057665e-1f);
  p = std::fma(p, m, 2.0000714765e-1f);
  p = std::fma(p, m, -2.4999993993e-1f);
  p = std::fma(p, m, 3.3333331174e-1f);
  float y = p * m * z;
  y = std::fma(e, -2.12194440e-4f, y);
  y = std::fma(z, -0.5f, y);
  y = std::fma(e, 0.693359375f, m + y);
  const float inf = std::numeric_limits<float>::infinity();
  y = x == inf ? inf : y;
  y = x == 0.0f ? -inf : y;
  return x < 0.0f ? std::numeric_limits<float>::quiet_NaN() : (x != x ? x : y);
}
inline double fast_log(double x) { return std::log(x); }

inline float fast_tanh(float x) {
  const float a = std::fabs(x), z = x * x;
  float p = -5.70498872745e-3f;
  p = std::fma(p, z, 2.06390887954e-2f);
  p = std::fma(p, z, -5.37397155531e-2f);
  p = std::fma(p, z, 1.33314422036e-1f);
  p = std::fma(p, z, -3.33332819422e-1f);
  const float near = std::fma(p * z, x, x);
  const float far = std::copysign(1.0f - 2.0f / (fast_exp(2.0f * a) + 1.0f), x);
  return a < 0.625f ? near : (x != x ? x : far);
}
inline double fast_tanh(double x) { return std::tanh(x); }

// Both halves from exp(-|x|), which does not overflow.
inline float fast_sigmoid(float x) {
  const float e = fast_exp(-std::fabs(x));
  return (x >= 0.0f ? 1.0f : e) / (1.0f + e);
}
inline double fast_sigmoid(double x) {
  const double e = std::exp(-std::fabs(x));
  return (x >= 0 ? 1.0 : e) / (1.0 + e);
}

// Two polynomials after N. Juffa: around 0 directly, outside as 1 - exp(polynomial).
inline float fast_erf(float a) {
  const float t = std::fabs(a), s = a * a;
  float r = std::fma(-1.72853470e-5f, t, 3.83197126e-4f);
  const float u = std::fma(-3.88396438e-3f, t, 2.42546219e-2f);
  r = std::fma(r, s, u);
  r = std::fma(r, t, -1.06777877e-1f);
  r = std::fma(r, t, -6.34846687e-1f);
  r = std::fma(r, t, -1.28717512e-1f);
  r = std::fma(r, t, -t);
  const float outside = std::copysign(1.0f - fast_exp(t > 10.0f ? -100.0f : r), a);
  float q = -5.96761703e-4f;
  q = std::fma(q, s, 4.99119423e-3f);
  q = std::fma(q, s, -2.67681349e-2f);
  q = std::fma(q, s, 1.12819925e-1f);
  q = std::fma(q, s, -3.76125336e-1f);
  q = std::fma(q, s, 1.28379166e-1f);
  q = std::fma(q, a, a);
  return t > 0.927734375f ? outside : q;
}
inline double fast_erf(double x) { return std::erf(x); }

// log(1 + exp(x)) without overflow and without losing small results.
template <class T>
inline T softplus(T x) {
  const T a = std::fabs(x), e = fast_exp(-a);
  // log1p(e) for e in (0, 1]: log(u) corrected by what rounding u = 1 + e lost
  const T u = T(1) + e, lost = e - (u - T(1));
  const T l = fast_log(u) + lost / u;
  return (x > T(0) ? x : T(0)) + l;
}
template <>
inline double softplus(double x) { return (x > 0 ? x : 0) + std::log1p(std::exp(-std::fabs(x))); }

}  // namespace eng::cpu

// Truth values, bits, comparisons, choice. Bits are taken from the exact integer that a double holds (below 2^53).
#include <cmath>

#include "tests/support/reference/reference.h"

namespace eng::test {
namespace {

template <class F>
void two(RefCall& c, F f) {
  RefTensor& y = c.out();
  for (int64_t i = 0; i < y.count(); ++i)
    y[i] = static_cast<double>(f(c.in(0)[broadcast_index(i, y.shape, c.in(0).shape)], c.in(1)[broadcast_index(i, y.shape, c.in(1).shape)]));
}
template <class F>
void one(RefCall& c, F f) {
  for (int64_t i = 0; i < c.out().count(); ++i) c.out()[i] = static_cast<double>(f(c.in(0)[i]));
}
int64_t n(double v) { return static_cast<int64_t>(v); }

// Cuts to the element type's bits, as arithmetic on the type does.
double cut(int64_t v, DType type) {
  const int bits = static_cast<int>(size_of(type)) * 8;
  if (bits == 64) return static_cast<double>(v);
  const int64_t range = int64_t{1} << bits;
  v = ((v % range) + range) % range;
  const bool is_signed = type == DType::kInt8 || type == DType::kInt16 || type == DType::kInt32;
  return static_cast<double>(is_signed && v >= range / 2 ? v - range : v);
}

void shift(RefCall& c) {
  const bool left = c.attr().get_string("direction", "") == "LEFT";
  const DType type = c.out().dtype;
  const double bits = static_cast<double>(size_of(type)) * 8;
  two(c, [=](double a, double b) {
    if (left) return b >= bits ? 0.0 : cut(n(a) * (int64_t{1} << n(b)), type);
    return std::floor(a / std::ldexp(1.0, static_cast<int>(std::fmin(b, 100))));
  });
}

void where(RefCall& c) {
  RefTensor& y = c.out();
  for (int64_t i = 0; i < y.count(); ++i) {
    const int k = c.in(0)[broadcast_index(i, y.shape, c.in(0).shape)] != 0 ? 1 : 2;
    y[i] = c.in(k)[broadcast_index(i, y.shape, c.in(k).shape)];
  }
}

void is_inf(RefCall& c) {
  const bool positive = c.attr().get_int("detect_positive", 1) != 0, negative = c.attr().get_int("detect_negative", 1) != 0;
  one(c, [=](double x) { return std::isinf(x) && (x > 0 ? positive : negative); });
}

}  // namespace

std::span<const RefDef> logic_reference() {
  static const RefDef defs[] = {
      {"", "And", [](RefCall& c) { two(c, [](double a, double b) { return a != 0 && b != 0; }); }},
      {"", "Or", [](RefCall& c) { two(c, [](double a, double b) { return a != 0 || b != 0; }); }},
      {"", "Xor", [](RefCall& c) { two(c, [](double a, double b) { return (a != 0) != (b != 0); }); }},
      {"", "Not", [](RefCall& c) { one(c, [](double a) { return a == 0; }); }},
      {"", "BitwiseAnd", [](RefCall& c) { two(c, [](double a, double b) { return n(a) & n(b); }); }},
      {"", "BitwiseOr", [](RefCall& c) { two(c, [](double a, double b) { return n(a) | n(b); }); }},
      {"", "BitwiseXor", [](RefCall& c) { two(c, [](double a, double b) { return n(a) ^ n(b); }); }},
      {"", "BitwiseNot", [](RefCall& c) { const DType t = c.out().dtype; one(c, [=](double a) { return cut(-1 - n(a), t); }); }},
      {"", "BitShift", shift},
      {"", "Equal", [](RefCall& c) { two(c, [](double a, double b) { return a == b; }); }},
      {"", "Greater", [](RefCall& c) { two(c, [](double a, double b) { return a > b; }); }},
      {"", "Less", [](RefCall& c) { two(c, [](double a, double b) { return a < b; }); }},
      {"", "GreaterOrEqual", [](RefCall& c) { two(c, [](double a, double b) { return a >= b; }); }},
      {"", "LessOrEqual", [](RefCall& c) { two(c, [](double a, double b) { return a <= b; }); }},
      {"", "IsNaN", [](RefCall& c) { one(c, [](double a) { return std::isnan(a); }); }},
      {"", "IsInf", is_inf},
      {"", "Where", where},
  };
  return defs;
}

}  // namespace eng::test

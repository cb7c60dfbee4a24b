// Dropout in inference form; random dropout with SplitMix64 (Steele, Lea, Flood 2014) over seed, counter, stream and index.
#include <cmath>

#include "tests/support/reference/reference.h"

namespace eng::test {
namespace {

uint64_t split_mix(uint64_t state) {
  uint64_t z = state + 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

double ratio_of(const RefCall& c) { return static_cast<double>(c.attr().get_float("ratio", 0.5F)); }

void identity(RefCall& c) {
  c.out(0).v = c.in(0).v;
  if (c.wants(1)) c.out(1).v.assign(c.out(1).v.size(), 1.0);
}

void random_dropout(RefCall& c) {
  const double ratio = ratio_of(c);
  const auto key = split_mix(split_mix(split_mix(static_cast<uint64_t>(c.in(1)[0])) + static_cast<uint64_t>(c.in(1)[1])) +
                             static_cast<uint64_t>(c.attr().get_int("stream", 0)));
  for (int64_t i = 0; i < c.in(0).count(); ++i) {
    const uint64_t bits = split_mix(key + static_cast<uint64_t>(i) * 0x9e3779b97f4a7c15);
    const bool keep = static_cast<double>(bits >> 32) >= std::floor(ratio * 4294967296.0);
    c.out(0)[i] = keep ? c.in(0)[i] / (1 - ratio) : 0;
    if (c.wants(1)) c.out(1)[i] = keep;
  }
}

void dropout_grad(RefCall& c) {
  for (int64_t i = 0; i < c.out().count(); ++i) c.out()[i] = c.in(1)[i] != 0 ? c.in(0)[i] / (1 - ratio_of(c)) : 0;
}

void advance(RefCall& c) {
  c.out()[0] = c.in(0)[0];
  c.out()[1] = c.in(0)[1] + 1;
}

}  // namespace

std::span<const RefDef> dropout_reference() {
  static const RefDef defs[] = {{"", "Dropout", identity}, {"ai.engine", "RandomDropout", random_dropout},
                                {"ai.engine", "DropoutGrad", dropout_grad}, {"ai.engine", "AdvanceRandom", advance}};
  return defs;
}

}  // namespace eng::test

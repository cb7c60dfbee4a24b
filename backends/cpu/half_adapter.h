// float16 and bfloat16 operands for any kernel that computes in float32: operands of those types are widened into the
// workspace, the float32 kernel runs, its results are rounded back (to nearest even). In a KernelDef: add kHalves to types and
// start create() with
//   if (has_half(n)) return create_widened(n, threads, create);
#pragma once

#include <memory>

#include "backends/cpu/kernel.h"

namespace eng::cpu {

inline bool is_half(int32_t dtype) { return dtype == EB_FLOAT16 || dtype == EB_BFLOAT16; }
// Whether any operand has 16 bits.
bool has_half(const NodeView& n);

void widen(float* to, const uint16_t* from, int64_t count, int32_t dtype);
void narrow(uint16_t* to, const float* from, int64_t count, int32_t dtype);

using CreateFn = std::unique_ptr<Kernel> (*)(const NodeView&, int threads);
// null where a 16-bit operand has gaps, or where create gives null.
std::unique_ptr<Kernel> create_widened(const NodeView& n, int threads, CreateFn create);

}  // namespace eng::cpu

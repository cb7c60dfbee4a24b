// A kernel that is one strided copy.
#pragma once

#include "backends/cuda/kernel.h"
#include "backends/cuda/strided_copy.h"

namespace eng::cuda {

class Copying : public Kernel {
 public:
  explicit Copying(StridedCopy copy) : copy_(copy) {}
  void run(const RunContext& c) override { copy_.run(c.stream, c.in(0), c.out(0)); }

 private:
  StridedCopy copy_;
};

}  // namespace eng::cuda

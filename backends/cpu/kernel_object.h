// What an eb_kernel of the CPU backend is.
#pragma once

#include <memory>
#include <string>

#include "backends/cpu/kernel.h"

struct eb_kernel {
  std::unique_ptr<eng::cpu::Kernel> impl;
  std::string name;  // for error messages: "Conv 'stem/conv1' (onednn)"
  uint32_t input_count = 0, output_count = 0;
};

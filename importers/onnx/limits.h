// What is refused before memory is spent on it. The sizes keep a hostile file of any kind under 512 MB and two seconds; each
// is far above what exporters write (the largest published graphs have some ten thousand nodes).
#pragma once

#include <cstdint>

namespace eng::onnx_limits {

inline constexpr int64_t kModelBytes = 0x7fffffff;              // protobuf's own limit; weights above it lie in external data
inline constexpr int64_t kNodes = 250'000;                      // in the file, sub-graphs and functions included; and after expansion
inline constexpr int64_t kStructureBytes = 320ll << 20;         // estimated memory of everything that is not raw tensor data
inline constexpr int64_t kNameBytes = 65'536;                   // of a tensor, node or operator name
inline constexpr int kGraphDepth = 24;                          // graphs inside graphs
inline constexpr int kMessageDepth = 90;                        // messages inside messages; protobuf stops at 100
inline constexpr int kFunctionDepth = 16;                       // functions inside functions
inline constexpr int64_t kSparseBytes = 256ll << 20;            // all sparse tensors of a file, made dense
inline constexpr int kReportedProblems = 20;                    // more are counted, not printed
inline constexpr int64_t kOldestIr = 3;

}  // namespace eng::onnx_limits

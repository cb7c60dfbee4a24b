// What cuBLAS, cuDNN and NCCL share: handles, element types, strided tensors as vectors of double, and a call with its checks.
#pragma once

#include <string>
#include <vector>

#include "tests/support/cuda_emulation/world.h"

namespace eng_emulation {

struct LibraryHandle : Object {
  cudaStream_t stream = nullptr;
  bool stream_set = false;
};

enum class Type { kFloat, kDouble, kHalf, kBfloat16, kInt8, kUint8, kInt32, kUint32, kInt64, kUint64 };
size_t size_of(Type type);
const char* name_of(Type type);
double get(Type type, const void* from);
void put(Type type, void* to, double value);
bool is_poison(Type type, const void* from);
double round_to_tf32(double value);

// Where the elements of a tensor lie, in elements.
struct Layout {
  Type type = Type::kFloat;
  std::vector<int64_t> dims, strides;
  size_t count() const;
  size_t extent() const;  // bytes from the first element's begin to the last one's end
};
Layout dense(Type type, const std::vector<int64_t>& dims);
// Calls f(offset) for the elements in row-major order of the dims.
template <class F>
void each_offset(const Layout& l, F f) {
  const size_t count = l.count();
  std::vector<int64_t> at(l.dims.size(), 0);
  int64_t offset = 0;
  for (size_t n = 0; n < count; ++n) {
    f(offset);
    for (size_t d = l.dims.size(); d-- > 0;) {
      offset += l.strides[d];
      if (++at[d] < l.dims[d]) break;
      offset -= l.strides[d] * l.dims[d];
      at[d] = 0;
    }
  }
}

// One call of a library: built with the mutex held, checked, then enqueued. Where `good` is false nothing is enqueued and the violation is in the list.
class Call {
 public:
  // Checks handle, current device and stream.
  Call(const char* name, LibraryHandle* handle);

  // A violation where the condition does not hold.
  void require(bool condition, const std::string& otherwise);
  void reads(const void* pointer, const Layout& layout);
  void writes(void* pointer, const Layout& layout);
  void scratch(void* pointer, size_t bytes);  // of no defined content before and after
  // A violation where the two share memory: of calls that are not documented to work in place.
  void apart(const void* a, const Layout& of_a, const void* b, const Layout& of_b, const char* operands);
  void submit(std::function<void(const Call&)> run);

  // While running:
  // Row-major values; poison among them is reported.
  std::vector<double> load(const void* pointer, const Layout& layout, const char* operand) const;
  // to = alpha * values + beta * to; to is not read where beta is 0.
  void store(void* pointer, const Layout& layout, const std::vector<double>& values, double alpha, double beta, const char* operand) const;
  // A result whose last bits change from run to run.
  void disturb(std::vector<double>& values, Type type) const;

  std::string what;
  bool good = true;
  int device = 0;
  cudaError_t lost = cudaSuccess;

 private:
  CUstream_st* stream_ = nullptr;
  Operation operation_;
  std::vector<std::pair<void*, size_t>> scratch_;
};

}  // namespace eng_emulation

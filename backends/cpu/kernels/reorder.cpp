// Reorder: y = x in another layout. Dense row-major <-> channels-last is a transposition of each sample's [channels, positions],
// done in tiles that stay in the first cache; anything else is copied element by element along the output's inner axis.
#include <algorithm>
#include <cstring>

#include "backends/cpu/kernel.h"

namespace eng::cpu {
namespace {

// from [rows, columns] to [columns, rows], `samples` times.
template <class T>
class Transpose : public Kernel {
 public:
  Transpose(int64_t samples, int64_t rows, int64_t columns) : samples_(samples), rows_(rows), columns_(columns) {}
  void run(const RunContext& c) override {
    const T* from = c.in<T>(0);
    T* to = c.out<T>(0);
    const int64_t tiles = (columns_ + kTile - 1) / kTile;
#pragma omp parallel for schedule(static)
    for (int64_t job = 0; job < samples_ * tiles; ++job) {
      const int64_t sample = job / tiles, begin = job % tiles * kTile, end = std::min(columns_, begin + kTile);
      const T* x = from + sample * rows_ * columns_;
      T* y = to + sample * rows_ * columns_;
      for (int64_t r0 = 0; r0 < rows_; r0 += kTile) {
        const int64_t r1 = std::min(rows_, r0 + kTile);
        for (int64_t col = begin; col < end; ++col)
          for (int64_t r = r0; r < r1; ++r) y[col * rows_ + r] = x[r * columns_ + col];
      }
    }
  }

 private:
  static constexpr int64_t kTile = 16;
  int64_t samples_, rows_, columns_;
};

template <class T>
class StridedCopy : public Kernel {
 public:
  explicit StridedCopy(const NodeView& n) : dims_(n.out(0).dims), from_(n.in(0).strides), to_(n.out(0).strides) {
    while (dims_.size() < 2) dims_.insert(dims_.begin(), 1), from_.insert(from_.begin(), 0), to_.insert(to_.begin(), 0);
    for (size_t i = 0; i + 1 < dims_.size(); ++i) outer_ *= dims_[i];
  }
  void run(const RunContext& c) override {
    const T* from = c.in<T>(0);
    T* to = c.out<T>(0);
    const size_t last = dims_.size() - 1;
#pragma omp parallel for schedule(static)
    for (int64_t job = 0; job < outer_; ++job) {
      int64_t rest = job, x = 0, y = 0;
      for (size_t a = last; a-- > 0;) {
        const int64_t i = rest % dims_[a];
        rest /= dims_[a];
        x += i * from_[a];
        y += i * to_[a];
      }
      for (int64_t i = 0; i < dims_[last]; ++i) to[y + i * to_[last]] = from[x + i * from_[last]];
    }
  }

 private:
  std::vector<int64_t> dims_, from_, to_;
  int64_t outer_ = 1;
};

class Copy : public Kernel {
 public:
  explicit Copy(const NodeView& n) : bytes_(static_cast<size_t>(n.in(0).bytes())) {}
  void run(const RunContext& c) override {
    if (c.outputs[0] != c.inputs[0]) std::memcpy(c.outputs[0], c.inputs[0], bytes_);
  }

 private:
  size_t bytes_;
};

template <class T>
std::unique_ptr<Kernel> make(const NodeView& n) {
  const TensorView& x = n.in(0);
  const TensorView& y = n.out(0);
  if ((x.row_major() && y.row_major()) || (x.channels_last() && y.channels_last())) return std::make_unique<Copy>(n);
  const int64_t samples = x.dim(0), channels = x.dim(1), positions = samples * channels > 0 ? x.count() / (samples * channels) : 0;
  if (x.row_major() && y.channels_last()) return std::make_unique<Transpose<T>>(samples, channels, positions);
  if (x.channels_last() && y.row_major()) return std::make_unique<Transpose<T>>(samples, positions, channels);
  return std::make_unique<StridedCopy<T>>(n);
}

std::unique_ptr<Kernel> create(const NodeView& n, int) {
  switch (eb::size_of(n.in(0).dtype)) {
    case 1: return make<uint8_t>(n);
    case 2: return make<uint16_t>(n);
    case 4: return make<uint32_t>(n);
    default: return make<uint64_t>(n);
  }
}

std::string can_run(const NodeView& n) {
  return n.in(0).dims == n.out(0).dims && n.in(0).dtype == n.out(0).dtype ? "" : "operands of different shape or type";
}

}  // namespace

std::span<const KernelDef> reorder_kernels() {
  static const KernelDef defs[] = {
      {.domain = "ai.engine", .op = "Reorder", .name = "tiles", .types = kAllTypes, .can_run = can_run, .create = create},
  };
  return defs;
}

}  // namespace eng::cpu

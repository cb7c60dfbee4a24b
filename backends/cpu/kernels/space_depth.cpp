// DepthToSpace and SpaceToDepth: one walk over (N, C, H, b, W, b) with the strides of either side; bytes are only moved.
#include <cstring>

#include "backends/cpu/kernel.h"

namespace eng::cpu {
namespace {

class SpaceDepth : public Kernel {
 public:
  explicit SpaceDepth(const NodeView& n) : to_space_(n.op() == "DepthToSpace"), block_(n.attr_int("blocksize", 1)), size_(eb::size_of(n.in(0).dtype)) {
    const TensorView &depth = to_space_ ? n.in(0) : n.out(0), &space = to_space_ ? n.out(0) : n.in(0);
    batch_ = space.dims[0];
    channels_ = space.dims[1];
    height_ = depth.dims[2];
    width_ = depth.dims[3];
    const int64_t area = height_ * width_;
    const bool crd = n.attr_string("mode", "DCR") == "CRD";
    channel_ = (crd ? block_ * block_ : 1) * area;  // strides within the deep tensor
    block_row_ = (crd ? block_ : block_ * channels_) * area;
    block_column_ = (crd ? 1 : channels_) * area;
  }
  void run(const RunContext& c) override {
    switch (size_) {
      case 1: return move<uint8_t>(c);
      case 2: return move<uint16_t>(c);
      case 4: return move<uint32_t>(c);
      default: return move<uint64_t>(c);
    }
  }

 private:
  template <class T>
  void move(const RunContext& c) const {
    const T* from = c.in<T>(0);
    T* to = c.out<T>(0);
    const int64_t rows = batch_ * channels_ * height_ * block_;
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t i = r % block_, h = r / block_ % height_, ch = r / block_ / height_ % channels_, n = r / block_ / height_ / channels_;
      const int64_t deep = n * channels_ * block_ * block_ * height_ * width_ + ch * channel_ + i * block_row_ + h * width_, flat = r * width_ * block_;
      for (int64_t w = 0; w < width_; ++w)
        for (int64_t j = 0; j < block_; ++j) {
          const int64_t d = deep + j * block_column_ + w, s = flat + w * block_ + j;
          if (to_space_) to[s] = from[d];
          else to[d] = from[s];
        }
    }
  }

  bool to_space_;
  int64_t block_;
  size_t size_;
  int64_t batch_ = 0, channels_ = 0, height_ = 0, width_ = 0, channel_ = 0, block_row_ = 0, block_column_ = 0;
};

std::unique_ptr<Kernel> create(const NodeView& n, int) { return std::make_unique<SpaceDepth>(n); }

}  // namespace

std::span<const KernelDef> space_depth_kernels() {
  static const KernelDef defs[] = {
      {.op = "DepthToSpace", .name = "copy", .types = kAllTypes, .create = create},
      {.op = "SpaceToDepth", .name = "copy", .types = kAllTypes, .create = create},
  };
  return defs;
}

}  // namespace eng::cpu

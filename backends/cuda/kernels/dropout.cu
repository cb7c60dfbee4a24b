// RandomDropout, DropoutGrad, AdvanceRandom, and Dropout in inference form. An element's bit depends on its logical index: the same bits as on the CPU.
#include "backends/cuda/each.h"
#include "backends/cuda/kernel.h"
#include "backends/cuda/loop.h"
#include "backends/cuda/random.h"

namespace eng::cuda {
namespace {

template <class T>
struct Drop {
  Loop<4> loop;  // y, mask, x, logical index
  T* y;
  bool* mask;
  const T* x;
  const int64_t* rng;
  uint64_t stream;
  uint32_t limit;
  T scale;
  __device__ void operator()(int64_t i) const {
    int64_t at[4];
    loop.at(i, at);
    const uint64_t key = random_key(static_cast<uint64_t>(rng[0]), static_cast<uint64_t>(rng[1]), stream);
    const bool keep = random_bits(key, static_cast<uint64_t>(at[3])) >= limit;
    y[at[0]] = keep ? x[at[2]] * scale : T(0);
    if (mask) mask[at[1]] = keep;
  }
};

template <class T>
class RandomDropout : public Kernel {
 public:
  explicit RandomDropout(const NodeView& n) : stream_(static_cast<uint64_t>(n.attr_int("stream", 0))), ratio_(n.attr_float("ratio", 0.5)) {
    Box box = box_of({&n.out(0), n.out(1).present() ? &n.out(1) : &n.out(0), &n.in(0)});
    std::vector<int64_t>& index = box.strides.emplace_back(box.dims.size());
    int64_t step = 1;
    for (size_t i = box.dims.size(); i-- > 0; step *= box.dims[i]) index[i] = step;
    loop_ = pack<4>(box);
  }
  void run(const RunContext& c) override {
    const auto limit = static_cast<uint32_t>(std::min(ratio_ * 4294967296.0, 4294967295.0));
    each(c.stream, loop_.count, Drop<T>{loop_, c.out<T>(0), c.out<bool>(1), c.in<T>(0), c.in<int64_t>(1), stream_, limit, static_cast<T>(1 / (1 - ratio_))});
  }

 private:
  Loop<4> loop_{};
  uint64_t stream_;
  double ratio_;
};

template <class T>
struct Masked {
  Loop<3> loop;  // dx, dy, mask
  T* dx;
  const T* dy;
  const bool* mask;
  T scale;
  __device__ void operator()(int64_t i) const {
    int64_t at[3];
    loop.at(i, at);
    dx[at[0]] = mask[at[2]] ? dy[at[1]] * scale : T(0);
  }
};

template <class T>
class DropoutGrad : public Kernel {
 public:
  explicit DropoutGrad(const NodeView& n) : loop_(loop_over<3>({&n.out(0), &n.in(0), &n.in(1)})), scale_(static_cast<T>(1 / (1 - n.attr_float("ratio", 0.5)))) {}
  void run(const RunContext& c) override { each(c.stream, loop_.count, Masked<T>{loop_, c.out<T>(0), c.in<T>(0), c.in<bool>(1), scale_}); }

 private:
  Loop<3> loop_;
  T scale_;
};

struct Advance {
  int64_t* to;
  const int64_t* from;
  __device__ void operator()() const {
    const int64_t seed = from[0], counter = from[1];
    to[0] = seed;
    to[1] = static_cast<int64_t>(static_cast<uint64_t>(counter) + 1);
  }
};

class AdvanceRandom : public Kernel {
 public:
  void run(const RunContext& c) override { once(c.stream, Advance{c.out<int64_t>(0), c.in<int64_t>(0)}); }
};

// y = x, and a mask of ones.
class Inference : public Kernel {
 public:
  explicit Inference(const NodeView& n) : bytes_(static_cast<size_t>(n.in(0).bytes())), count_(static_cast<size_t>(n.in(0).count())) {}
  void run(const RunContext& c) override {
    if (bytes_ && c.out(0) != c.in(0)) check(cudaMemcpyAsync(c.out(0), c.in(0), bytes_, cudaMemcpyDeviceToDevice, c.stream), "copying");
    if (count_ && c.out(1)) check(cudaMemsetAsync(c.out(1), 1, count_, c.stream), "filling the mask");
  }

 private:
  size_t bytes_, count_;
};

std::string inference_only(const NodeView& n) {
  if (n.in(2).present()) return "training_mode is an input; a training step has RandomDropout instead";
  const TensorView& x = n.in(0);
  return (x.row_major() || x.channels_last()) && x.same_layout(n.out(0)) ? "" : "operands lie in different orders";
}

}  // namespace

std::span<const KernelDef> dropout_kernels() {
  static const KernelDef defs[] = {
      {.op = "Dropout", .name = "copy", .aliases = {{EB_ALIAS_IN_PLACE, 0, 0}}, .can_run = inference_only,
       .create = [](const NodeView& n, eb_device*) -> std::unique_ptr<Kernel> { return std::make_unique<Inference>(n); }},
      {.domain = "ai.engine", .op = "RandomDropout", .aliases = {{EB_ALIAS_IN_PLACE, 0, 0}}, .can_run = any_layout, .create = create_float<RandomDropout>},
      {.domain = "ai.engine", .op = "DropoutGrad", .aliases = {{EB_ALIAS_IN_PLACE, 0, 0}}, .can_run = any_layout, .create = create_float<DropoutGrad>},
      {.domain = "ai.engine", .op = "AdvanceRandom", .types = type_bit(EB_INT64), .aliases = {{EB_ALIAS_IN_PLACE, 0, 0}},
       .create = [](const NodeView&, eb_device*) -> std::unique_ptr<Kernel> { return std::make_unique<AdvanceRandom>(); }},
  };
  return defs;
}

}  // namespace eng::cuda

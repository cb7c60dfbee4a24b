// See conv_direct.h. X (N, C, ...), W (O, C/G, ...), Y (N, O, ...): output channel o of group g = o / (O/G) reads the input channels of g.
#include "backends/cuda/kernels/conv_direct.h"

#include "backends/cuda/loop.h"
#include "backends/cuda/reduce.h"

namespace eng::cuda {
namespace {

struct Geometry {
  Window w;
  Strides5 x, y, weight;                   // weight: batch is the output channel, channel the input channel within the group
  int64_t inputs_a_group, outputs_a_group;
};

Geometry geometry(const ConvShape& s) {
  return {s.window, strides_of(s.wide), strides_of(s.narrow), strides_of(s.weight), s.weight.dims[1], s.narrow.dims[1] / s.group};
}

// A walk over a tensor (N, C, spatial...): offset, batch, channel and the three spatial indices.
Loop<6> walk(const TensorView& t) {
  Box box = box_of({&t});
  for (int axis = 0; axis < 5; ++axis) box.strides.push_back(index_along(t, axis).strides);
  return pack<6>(box);
}

template <class T>
struct Forward {
  Loop<6> loop;  // Y
  Geometry g;
  T* y;
  const T *x, *w, *bias;
  __device__ void operator()(int64_t i) const {
    int64_t at[6], first[3], last[3];
    loop.at(i, at);
    const int64_t o = at[2], group = o / g.outputs_a_group;
    for (int a = 0; a < 3; ++a) g.w.taps(a, at[3 + a], &first[a], &last[a]);
    T sum = T(0);
    for (int64_t c = 0; c < g.inputs_a_group; ++c) {
      const T* plane = x + at[1] * g.x.batch + (group * g.inputs_a_group + c) * g.x.channel;
      const T* taps = w + o * g.weight.batch + c * g.weight.channel;
      T part = T(0);
      for (int64_t k0 = first[0]; k0 < last[0]; ++k0)
        for (int64_t k1 = first[1]; k1 < last[1]; ++k1)
          for (int64_t k2 = first[2]; k2 < last[2]; ++k2)
            part += plane[g.w.place(0, at[3], k0) * g.x.space[0] + g.w.place(1, at[4], k1) * g.x.space[1] + g.w.place(2, at[5], k2) * g.x.space[2]] *
                    taps[k0 * g.weight.space[0] + k1 * g.weight.space[1] + k2 * g.weight.space[2]];
      sum += part;
    }
    y[at[0]] = bias ? sum + bias[o] : sum;
  }
};

template <class T>
class ForwardKernel : public Kernel {
 public:
  explicit ForwardKernel(const NodeView& n) : loop_(walk(n.out(0))), g_(geometry(forward_shape(n))) {}
  void run(const RunContext& c) override { each(c.stream, loop_.count, Forward<T>{loop_, g_, c.out<T>(0), c.in<T>(0), c.in<T>(1), c.in<T>(2)}); }

 private:
  Loop<6> loop_;
  Geometry g_;
};

template <class T>
struct GradInput {
  Loop<6> loop;  // dX
  Geometry g;
  T* dx;
  const T *dy, *w;
  __device__ void operator()(int64_t i) const {
    int64_t at[6], first[3], last[3];
    loop.at(i, at);
    const int64_t group = at[2] / g.inputs_a_group, c = at[2] - group * g.inputs_a_group;
    for (int a = 0; a < 3; ++a) g.w.covering(a, at[3 + a], &first[a], &last[a]);
    T sum = T(0);
    for (int64_t k = 0; k < g.outputs_a_group; ++k) {
      const int64_t o = group * g.outputs_a_group + k;
      const T* plane = dy + at[1] * g.y.batch + o * g.y.channel;
      const T* taps = w + o * g.weight.batch + c * g.weight.channel;
      T part = T(0);
      for (int64_t p0 = first[0]; p0 < last[0]; ++p0) {
        const int64_t k0 = g.w.tap(0, at[3], p0);
        if (k0 < 0) continue;
        for (int64_t p1 = first[1]; p1 < last[1]; ++p1) {
          const int64_t k1 = g.w.tap(1, at[4], p1);
          if (k1 < 0) continue;
          for (int64_t p2 = first[2]; p2 < last[2]; ++p2) {
            const int64_t k2 = g.w.tap(2, at[5], p2);
            if (k2 < 0) continue;
            part += plane[p0 * g.y.space[0] + p1 * g.y.space[1] + p2 * g.y.space[2]] * taps[k0 * g.weight.space[0] + k1 * g.weight.space[1] + k2 * g.weight.space[2]];
          }
        }
      }
      sum += part;
    }
    dx[at[0]] = sum;
  }
};

template <class T>
class GradInputKernel : public Kernel {
 public:
  explicit GradInputKernel(const NodeView& n) : loop_(walk(n.out(0))), g_(geometry(grad_input_shape(n))) {}
  void run(const RunContext& c) override { each(c.stream, loop_.count, GradInput<T>{loop_, g_, c.out<T>(0), c.in<T>(0), c.in<T>(1)}); }

 private:
  Loop<6> loop_;
  Geometry g_;
};

// One weight: the sum over batch and output positions.
template <class T>
struct GradWeight {
  using A = double;
  Loop<6> weights;    // dW: offset, o, c, three taps
  Loop<4> positions;  // batch and three output indices
  Geometry g;
  T* dw;
  const T *x, *dy;
  __device__ A start() const { return 0; }
  __device__ void take(A& a, int64_t output, int64_t element) const {
    int64_t at[6], p[4], place[3];
    weights.at(output, at);
    positions.at(element, p);
    for (int axis = 0; axis < 3; ++axis) {
      place[axis] = g.w.place(axis, p[1 + axis], at[3 + axis]);
      if (place[axis] < 0 || place[axis] >= g.w.in[axis]) return;
    }
    const int64_t channel = at[1] / g.outputs_a_group * g.inputs_a_group + at[2];
    const T u = x[p[0] * g.x.batch + channel * g.x.channel + place[0] * g.x.space[0] + place[1] * g.x.space[1] + place[2] * g.x.space[2]];
    const T v = dy[p[0] * g.y.batch + at[1] * g.y.channel + p[1] * g.y.space[0] + p[2] * g.y.space[1] + p[3] * g.y.space[2]];
    a += static_cast<double>(u) * static_cast<double>(v);
  }
  __device__ void join(A& a, const A& b) const { a += b; }
  __device__ void finish(const A& a, int64_t output) const {
    int64_t at[6];
    weights.at(output, at);
    dw[at[0]] = static_cast<T>(a);
  }
};

template <class T>
class GradWeightKernel : public Kernel {
 public:
  explicit GradWeightKernel(const NodeView& n) : weights_(walk(n.out(0))), g_(geometry(grad_weight_shape(n))), bias_(n.in(1)), dtype_(n.in(0).dtype) {
    // Positions as dY lies, without its channels.
    TensorView dy = n.in(1);
    const TensorView whole = dy;
    dy.dims[1] = 1;
    Box box = box_of({&dy});
    box.strides = {whole.strides};  // the order of the walk
    for (int axis : {0, 2, 3, 4}) box.strides.push_back(index_along(whole, axis).strides);
    const Loop<5> ordered = pack<5>(box);
    positions_.rank = ordered.rank;
    positions_.count = ordered.count;
    for (int a = 0; a < ordered.rank; ++a) {
      positions_.extent[a] = ordered.extent[a];
      for (int k = 0; k < 4; ++k) positions_.stride[k][a] = ordered.stride[k + 1][a];
    }
    plan_ = plan_reduce(weights_.count, positions_.count, false);
  }
  size_t workspace() const override { return aligned(plan_.workspace<GradWeight<T>>()) + bias_.workspace(); }
  void run(const RunContext& c) override {
    if (c.out(0)) reduce(c.stream, plan_, GradWeight<T>{weights_, positions_, g_, c.out<T>(0), c.in<T>(0), c.in<T>(1)}, c.workspace);
    if (c.out(1)) bias_.run(c.stream, dtype_, c.in(1), c.out(1), c.space(aligned(plan_.workspace<GradWeight<T>>())));
  }

 private:
  Loop<6> weights_;
  Loop<4> positions_{};
  Geometry g_;
  ReducePlan plan_;
  SumOverChannels bias_;
  int32_t dtype_;
};

template <class T>
struct BiasElements {
  Loop<2> loop;  // y, channel
  T* y;
  const T* bias;
  __device__ void operator()(int64_t i) const {
    int64_t at[2];
    loop.at(i, at);
    y[at[0]] += bias[at[1]];
  }
};

template <class T>
struct ChannelSum {
  using A = double;
  const T* dy;
  T* sum;
  Loop<1> inside;
  int64_t step;
  __device__ A start() const { return 0; }
  __device__ void take(A& a, int64_t output, int64_t element) const {
    int64_t at[1];
    inside.at(element, at);
    a += static_cast<double>(dy[output * step + at[0]]);
  }
  __device__ void join(A& a, const A& b) const { a += b; }
  __device__ void finish(const A& a, int64_t output) const { sum[output] = static_cast<T>(a); }
};

}  // namespace

AddBias::AddBias(const TensorView& y) {
  Box box = box_of({&y});
  box.strides.push_back(index_along(y, 1).strides);
  loop_ = pack<2>(box);
}
void AddBias::run(cudaStream_t stream, int32_t dtype, void* y, const void* bias) const {
  dispatch_floats(dtype, [&](auto t) {
    using T = decltype(t);
    each(stream, loop_.count, BiasElements<T>{loop_, static_cast<T*>(y), static_cast<const T*>(bias)});
  });
}

SumOverChannels::SumOverChannels(const TensorView& dy) : step_(dy.strides[1]), channels_(dy.dims[1]), side_by_side_(dy.strides[1] == 1 && dy.dims[1] > 1) {
  Box box = box_of({&dy});
  box.dims[1] = 1;
  inside_ = pack<1>(box);
  workspace_ = plan_reduce(channels_, inside_.count, side_by_side_).workspace<ChannelSum<float>>();
}
void SumOverChannels::run(cudaStream_t stream, int32_t dtype, const void* dy, void* bias, void* space) const {
  dispatch_floats(dtype, [&](auto t) {
    using T = decltype(t);
    reduce(stream, plan_reduce(channels_, inside_.count, side_by_side_), ChannelSum<T>{static_cast<const T*>(dy), static_cast<T*>(bias), inside_, step_}, space);
  });
}

std::unique_ptr<Kernel> create_conv_direct(const NodeView& n, eb_device* device) { return create_float<ForwardKernel>(n, device); }
std::unique_ptr<Kernel> create_conv_grad_input_direct(const NodeView& n, eb_device* device) { return create_float<GradInputKernel>(n, device); }
std::unique_ptr<Kernel> create_conv_grad_weight_direct(const NodeView& n, eb_device* device) { return create_float<GradWeightKernel>(n, device); }

}  // namespace eng::cuda

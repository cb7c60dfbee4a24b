// Convolution and its gradients with plain loops over any strides: the last choice of conv.cpp. Every output element is one
// thread's sum in a fixed order. Missing axes are padded to three spatial ones at create.
#include <array>

#include "backends/cpu/half_adapter.h"
#include "backends/cpu/kernels/conv_shape.h"

namespace eng::cpu {
namespace {

struct Extent3 {
  std::array<int64_t, 3> dims{1, 1, 1}, strides{0, 0, 0};
  int64_t lead[2] = {0, 0}, lead_stride[2] = {0, 0};  // batch and channel, or output and input channel
};
Extent3 extent(const TensorView& t) {
  Extent3 e;
  const size_t axes = t.dims.size() - 2;
  for (size_t i = 0; i < 2; ++i) e.lead[i] = t.dims[i], e.lead_stride[i] = t.strides[i];
  for (size_t i = 0; i < axes; ++i) e.dims[3 - axes + i] = t.dims[i + 2], e.strides[3 - axes + i] = t.strides[i + 2];
  return e;
}
std::array<int64_t, 3> spread(const std::vector<int64_t>& v, int64_t fill) {
  std::array<int64_t, 3> a{fill, fill, fill};
  for (size_t i = 0; i < v.size(); ++i) a[3 - v.size() + i] = v[i];
  return a;
}

struct Loops {
  Extent3 x, y, w;
  std::array<int64_t, 3> stride, dilation, begin;
  int64_t group;
  explicit Loops(const ConvShape& s)
      : x(extent(s.wide)), y(extent(s.narrow)), w(extent(s.weight)), stride(spread(s.window.strides, 1)), dilation(spread(s.window.dilations, 1)),
        begin(spread(s.window.begin, 0)), group(s.group) {}
  // Offset of the input position that output position p and kernel position k meet at; -1 in the padding.
  int64_t meet(const std::array<int64_t, 3>& p, const std::array<int64_t, 3>& k) const {
    int64_t at = 0;
    for (size_t i = 0; i < 3; ++i) {
      const int64_t q = p[i] * stride[i] + k[i] * dilation[i] - begin[i];
      if (q < 0 || q >= x.dims[i]) return -1;
      at += q * x.strides[i];
    }
    return at;
  }
};
int64_t offset(const Extent3& e, const std::array<int64_t, 3>& p) { return p[0] * e.strides[0] + p[1] * e.strides[1] + p[2] * e.strides[2]; }
template <class F>
void each(const std::array<int64_t, 3>& dims, F&& f) {
  for (int64_t a = 0; a < dims[0]; ++a)
    for (int64_t b = 0; b < dims[1]; ++b)
      for (int64_t c = 0; c < dims[2]; ++c) f(std::array<int64_t, 3>{a, b, c});
}

template <class T>
class Forward : public Kernel {
 public:
  Forward(const ConvShape& s, bool bias) : l_(s), bias_(bias) {}
  void run(const RunContext& c) override {
    const T *x = c.in<T>(0), *w = c.in<T>(1), *bias = bias_ ? c.in<T>(2) : nullptr;
    T* y = c.out<T>(0);
    const int64_t per_group = l_.w.lead[0] / l_.group, in = l_.w.lead[1];
#pragma omp parallel for collapse(2) schedule(static)
    for (int64_t n = 0; n < l_.y.lead[0]; ++n)
      for (int64_t o = 0; o < l_.y.lead[1]; ++o) {
        const T* xg = x + n * l_.x.lead_stride[0] + o / per_group * in * l_.x.lead_stride[1];
        const T* wo = w + o * l_.w.lead_stride[0];
        T* yo = y + n * l_.y.lead_stride[0] + o * l_.y.lead_stride[1];
        each(l_.y.dims, [&](const auto& p) {
          T sum = bias ? bias[o] : T(0);
          each(l_.w.dims, [&](const auto& k) {
            const int64_t at = l_.meet(p, k);
            if (at < 0) return;
            for (int64_t i = 0; i < in; ++i) sum += xg[at + i * l_.x.lead_stride[1]] * wo[offset(l_.w, k) + i * l_.w.lead_stride[1]];
          });
          yo[offset(l_.y, p)] = sum;
        });
      }
  }

 private:
  Loops l_;
  bool bias_;
};

template <class T>
class GradInput : public Kernel {
 public:
  explicit GradInput(const ConvShape& s, bool bias) : l_(s), bias_(bias) {}
  void run(const RunContext& c) override {
    const T *dy = c.in<T>(0), *w = c.in<T>(1), *bias = bias_ ? c.in<T>(2) : nullptr;
    T* dx = c.out<T>(0);
    const int64_t per_group = l_.w.lead[0] / l_.group, in = l_.w.lead[1];
#pragma omp parallel for collapse(2) schedule(static)
    for (int64_t n = 0; n < l_.x.lead[0]; ++n)
      for (int64_t ch = 0; ch < l_.x.lead[1]; ++ch) {
        const int64_t first = ch / in * per_group, i = ch % in;
        T* dxc = dx + n * l_.x.lead_stride[0] + ch * l_.x.lead_stride[1];
        each(l_.x.dims, [&](const auto& p) { dxc[offset(l_.x, p)] = bias ? bias[ch] : T(0); });
        each(l_.y.dims, [&](const auto& p) {
          each(l_.w.dims, [&](const auto& k) {
            const int64_t at = l_.meet(p, k);
            if (at < 0) return;
            T sum = 0;
            for (int64_t o = first; o < first + per_group; ++o)
              sum += dy[n * l_.y.lead_stride[0] + o * l_.y.lead_stride[1] + offset(l_.y, p)] *
                     w[o * l_.w.lead_stride[0] + i * l_.w.lead_stride[1] + offset(l_.w, k)];
            dxc[at] += sum;
          });
        });
      }
  }

 private:
  Loops l_;
  bool bias_;
};

template <class T>
class GradWeight : public Kernel {
 public:
  GradWeight(const ConvShape& s, bool bias) : l_(s), bias_(bias) {}
  void run(const RunContext& c) override {
    const T *x = c.in<T>(0), *dy = c.in<T>(1);
    T *dw = c.out<T>(0), *db = bias_ ? c.out<T>(1) : nullptr;
    const int64_t per_group = l_.w.lead[0] / l_.group, in = l_.w.lead[1];
#pragma omp parallel for schedule(static)
    for (int64_t o = 0; o < l_.w.lead[0]; ++o) {
      const T* dyo = dy + o * l_.y.lead_stride[1];
      if (db) {
        db[o] = 0;
        for (int64_t n = 0; n < l_.y.lead[0]; ++n) each(l_.y.dims, [&](const auto& p) { db[o] += dyo[n * l_.y.lead_stride[0] + offset(l_.y, p)]; });
      }
      for (int64_t i = 0; i < in; ++i)
        each(l_.w.dims, [&](const auto& k) {
          T sum = 0;
          for (int64_t n = 0; n < l_.x.lead[0]; ++n) {
            const T* xi = x + n * l_.x.lead_stride[0] + (o / per_group * in + i) * l_.x.lead_stride[1];
            each(l_.y.dims, [&](const auto& p) {
              const int64_t at = l_.meet(p, k);
              if (at >= 0) sum += xi[at] * dyo[n * l_.y.lead_stride[0] + offset(l_.y, p)];
            });
          }
          dw[o * l_.w.lead_stride[0] + i * l_.w.lead_stride[1] + offset(l_.w, k)] = sum;
        });
    }
  }

 private:
  Loops l_;
  bool bias_;
};

template <template <class> class K>
std::unique_ptr<Kernel> make(int32_t dtype, const ConvShape& s, bool bias) {
  if (dtype == EB_FLOAT64) return std::make_unique<K<double>>(s, bias);
  return std::make_unique<K<float>>(s, bias);
}

}  // namespace

std::string conv_loops_can_run(const NodeView&) { return ""; }
std::unique_ptr<Kernel> create_conv_loops(const NodeView& n, int threads) {
  if (has_half(n)) return create_widened(n, threads, create_conv_loops);
  return make<Forward>(n.in(0).dtype, forward_shape(n), n.in(2).present());
}
std::unique_ptr<Kernel> create_conv_grad_input_loops(const NodeView& n, int threads) {
  if (has_half(n)) return create_widened(n, threads, create_conv_grad_input_loops);
  return create_transposed_loops(n, grad_input_shape(n));
}
std::unique_ptr<Kernel> create_transposed_loops(const NodeView& n, const ConvShape& s) { return make<GradInput>(n.in(0).dtype, s, n.in(2).present()); }
std::unique_ptr<Kernel> create_conv_grad_weight_loops(const NodeView& n, int threads) {
  if (has_half(n)) return create_widened(n, threads, create_conv_grad_weight_loops);
  return make<GradWeight>(n.in(0).dtype, grad_weight_shape(n), n.out(1).present());
}

}  // namespace eng::cpu

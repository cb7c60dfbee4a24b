// cuDNN's pooling. Of equal maxima the first in row-major order gets the gradient; the plain MAX mode gives gradients whose last bits vary, as documented.
#include <algorithm>
#include <limits>

#include "tests/support/cuda_emulation/cudnn_objects.h"

namespace eng_emulation {

namespace {

struct Pool {
  Layout x, y;
  cudnnPoolingMode_t mode;
  bool nans;
  int64_t in[3], out[3], window[3], pad[3], stride[3];
};

void collect(DnnCall& call, cudnnPoolingDescriptor_t pooling, cudnnTensorDescriptor_t x, cudnnTensorDescriptor_t y, Pool& p) {
  const cudnnPoolingStruct& d = call.get(pooling, "poolingDesc");
  p.x = call.get(x, "xDesc").layout;
  p.y = call.get(y, "yDesc").layout;
  if (!call.good) return;
  p.mode = d.mode;
  p.nans = d.nans;
  const size_t spatial = d.window.size();
  call.require(p.x.dims.size() == spatial + 2 && p.y.dims.size() == spatial + 2, "the descriptors have different numbers of dimensions");
  call.require(p.x.type == p.y.type, "x and y have different types");
  if (!call.good) return;
  call.require(p.x.dims[0] == p.y.dims[0] && p.x.dims[1] == p.y.dims[1], "x and y differ in batch or channels");
  for (size_t i = 0; i < 3; ++i) {
    p.in[i] = p.out[i] = p.window[i] = p.stride[i] = 1, p.pad[i] = 0;
    if (i < 3 - spatial) continue;
    const size_t from = i - (3 - spatial);
    p.in[i] = p.x.dims[from + 2], p.out[i] = p.y.dims[from + 2];
    p.window[i] = d.window[from], p.pad[i] = d.pad[from], p.stride[i] = d.stride[from];
    call.require(p.in[i] + 2 * p.pad[i] >= p.window[i], "the window is larger than axis " + std::to_string(from + 2) + " of x with its pads");
    const int64_t expected = 1 + (p.in[i] + 2 * p.pad[i] - p.window[i]) / p.stride[i];
    call.require(p.out[i] == expected, "axis " + std::to_string(from + 2) + " of y is " + std::to_string(p.out[i]) + ", the pooling gives " + std::to_string(expected));
  }
}

// Calls begin(index of y), then tap(index of x) for the taps that lie inside, then end(index of y, taps inside).
template <class B, class T, class E>
void each_window(const Pool& p, B begin, T tap, E end) {
  size_t yi = 0;
  for (int64_t plane = 0; plane < p.x.dims[0] * p.x.dims[1]; ++plane)
    for (int64_t oz = 0; oz < p.out[0]; ++oz)
      for (int64_t oy = 0; oy < p.out[1]; ++oy)
        for (int64_t ox = 0; ox < p.out[2]; ++ox, ++yi) {
          begin(yi);
          int64_t inside = 0;
          for (int64_t tz = 0; tz < p.window[0]; ++tz)
            for (int64_t ty = 0; ty < p.window[1]; ++ty)
              for (int64_t tx = 0; tx < p.window[2]; ++tx) {
                const int64_t z = oz * p.stride[0] - p.pad[0] + tz, y = oy * p.stride[1] - p.pad[1] + ty, x = ox * p.stride[2] - p.pad[2] + tx;
                if (z < 0 || z >= p.in[0] || y < 0 || y >= p.in[1] || x < 0 || x >= p.in[2]) continue;
                ++inside;
                tap(static_cast<size_t>(((plane * p.in[0] + z) * p.in[1] + y) * p.in[2] + x));
              }
          end(yi, inside);
        }
}

bool is_max(const Pool& p) { return p.mode == CUDNN_POOLING_MAX || p.mode == CUDNN_POOLING_MAX_DETERMINISTIC; }
double divisor(const Pool& p, int64_t inside) {
  return static_cast<double>(p.mode == CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING ? p.window[0] * p.window[1] * p.window[2] : inside);
}

}  // namespace

}  // namespace eng_emulation

using namespace eng_emulation;

cudnnStatus_t cudnnGetPoolingNdForwardOutputDim(const cudnnPoolingDescriptor_t pooling, const cudnnTensorDescriptor_t x, int count, int dims[]) {
  std::lock_guard<std::mutex> lock(world().mutex);
  auto* p = find_locked<cudnnPoolingStruct>(pooling, "cudnnGetPoolingNdForwardOutputDim");
  auto* t = find_locked<cudnnTensorStruct>(x, "cudnnGetPoolingNdForwardOutputDim");
  if (!p || !t || count != static_cast<int>(t->layout.dims.size()) || p->window.size() + 2 != t->layout.dims.size()) return CUDNN_STATUS_BAD_PARAM;
  for (size_t i = 0; i < t->layout.dims.size(); ++i) {
    const int64_t in = t->layout.dims[i];
    dims[i] = static_cast<int>(i < 2 ? in : 1 + (in + 2 * p->pad[i - 2] - p->window[i - 2]) / p->stride[i - 2]);
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnPoolingForward(cudnnHandle_t handle, const cudnnPoolingDescriptor_t pooling, const void* alpha_at, const cudnnTensorDescriptor_t x_desc, const void* x,
                                  const void* beta_at, const cudnnTensorDescriptor_t y_desc, void* y) {
  DnnCall call("cudnnPoolingForward", handle);
  Pool p;
  collect(call, pooling, x_desc, y_desc, p);
  const double alpha = call.scalar(alpha_at, p.x.type, "alpha"), beta = call.scalar(beta_at, p.x.type, "beta");
  if (!call.good) return CUDNN_STATUS_BAD_PARAM;
  call.reads(x, p.x), call.writes(y, p.y), call.apart(x, p.x, y, p.y, "x and y");
  return call.run([=](const Call& self) {
    const std::vector<double> values = self.load(x, p.x, "x");
    std::vector<double> out(p.y.count());
    double now = 0;
    each_window(p, [&](size_t) { now = is_max(p) ? -std::numeric_limits<double>::infinity() : 0; },
                [&](size_t i) { now = !is_max(p) ? now + values[i] : values[i] > now || (p.nans && values[i] != values[i]) ? values[i] : now; },
                [&](size_t i, int64_t inside) { out[i] = is_max(p) ? now : now / divisor(p, inside); });
    self.store(y, p.y, out, alpha, beta, "y");
  });
}

cudnnStatus_t cudnnPoolingBackward(cudnnHandle_t handle, const cudnnPoolingDescriptor_t pooling, const void* alpha_at, const cudnnTensorDescriptor_t y_desc, const void* y,
                                   const cudnnTensorDescriptor_t dy_desc, const void* dy, const cudnnTensorDescriptor_t x_desc, const void* x, const void* beta_at,
                                   const cudnnTensorDescriptor_t dx_desc, void* dx) {
  DnnCall call("cudnnPoolingBackward", handle);
  Pool p;
  collect(call, pooling, x_desc, y_desc, p);
  const Layout of_dy = call.get(dy_desc, "dyDesc").layout, of_dx = call.get(dx_desc, "dxDesc").layout;
  call.identical(p.y, of_dy, "y and dy");
  call.identical(p.x, of_dx, "x and dx");
  const double alpha = call.scalar(alpha_at, p.x.type, "alpha"), beta = call.scalar(beta_at, p.x.type, "beta");
  if (!call.good) return CUDNN_STATUS_BAD_PARAM;
  call.require(x && y, "x or y is null");
  if (is_max(p)) call.reads(x, p.x), call.reads(y, p.y), call.apart(dx, of_dx, x, p.x, "dx and x"), call.apart(dx, of_dx, y, p.y, "dx and y");
  call.reads(dy, of_dy), call.writes(dx, of_dx), call.apart(dx, of_dx, dy, of_dy, "dx and dy");
  return call.run([=](const Call& self) {
    const std::vector<double> grad = self.load(dy, of_dy, "dy"), values = is_max(p) ? self.load(x, p.x, "x") : std::vector<double>();
    if (is_max(p)) self.load(y, p.y, "y");
    std::vector<double> out(p.x.count(), 0.0);
    std::vector<size_t> taps;
    each_window(p, [&](size_t) { taps.clear(); }, [&](size_t i) { taps.push_back(i); },
                [&](size_t i, int64_t inside) {
                  if (taps.empty()) return;
                  if (is_max(p)) {
                    out[*std::max_element(taps.begin(), taps.end(), [&](size_t a, size_t b) { return values[a] < values[b]; })] += grad[i];
                    return;
                  }
                  for (const size_t t : taps) out[t] += grad[i] / divisor(p, inside);
                });
    if (p.mode == CUDNN_POOLING_MAX) self.disturb(out, p.x.type);
    self.store(dx, of_dx, out, alpha, beta, "dx");
  });
}

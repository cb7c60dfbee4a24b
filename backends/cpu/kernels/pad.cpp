// Pad and ai.engine::PadGrad, any layout. Constant mode is a fill and a strided copy of what x and y have in common; the other
// modes look the source of each coordinate up in a table per axis. PadGrad adds in the order of dy's elements.
#include <algorithm>
#include <cstring>

#include "backends/cpu/kernel.h"
#include "backends/cpu/strided_copy.h"

namespace eng::cpu {
namespace {

// The coordinate of x that coordinate `at` (from x's start; may lie outside) is copied from.
int64_t source(const std::string& mode, int64_t at, int64_t extent) {
  if (mode == "edge") return std::clamp<int64_t>(at, 0, extent - 1);
  const int64_t period = mode == "wrap" ? extent : std::max<int64_t>(2 * (extent - 1), 1);
  const int64_t inside = ((at % period) + period) % period;
  return inside < extent ? inside : period - inside;
}

// begin and end per axis.
std::pair<std::vector<int64_t>, std::vector<int64_t>> pads_of(const NodeView& n, const TensorView& x) {
  std::vector<int64_t> begin(x.dims.size(), 0), end = begin;
  const std::vector<int64_t> pads = n.host_ints(1), axes = n.host_ints(3);
  const size_t count = pads.size() / 2;
  for (size_t i = 0; i < count; ++i) {
    int64_t axis = n.in(3).present() ? axes[i] : static_cast<int64_t>(i);
    if (axis < 0) axis += x.rank();
    begin[static_cast<size_t>(axis)] = pads[i];
    end[static_cast<size_t>(axis)] = pads[i + count];
  }
  return {begin, end};
}

// The copy of the common part from x to y or, backward, from y to x.
StridedCopy common_part(const TensorView& x, const TensorView& y, const std::vector<int64_t>& begin, bool backward) {
  std::vector<int64_t> dims;
  int64_t at_x = 0, at_y = 0;
  for (size_t d = 0; d < x.dims.size(); ++d) {
    const int64_t first = std::max<int64_t>(0, -begin[d]), last = std::min(x.dims[d], y.dims[d] - begin[d]);  // of x
    dims.push_back(std::max<int64_t>(0, last - first));
    at_x += first * x.strides[d];
    at_y += (first + begin[d]) * y.strides[d];
  }
  const size_t size = eb::size_of(x.dtype);
  return backward ? StridedCopy(size, dims, y.strides, x.strides, at_y, at_x) : StridedCopy(size, dims, x.strides, y.strides, at_x, at_y);
}

// For every element of y, its offset and that of its source in x.
struct Lookup {
  std::vector<std::vector<int64_t>> from;  // per axis and coordinate of y, in elements of x
  std::vector<int64_t> dims, strides;      // of y
  int64_t count = 1;
  Lookup(const TensorView& x, const TensorView& y, const std::vector<int64_t>& begin, const std::string& mode) : dims(y.dims), strides(y.strides) {
    for (size_t d = 0; d < dims.size(); ++d) {
      from.emplace_back();
      for (int64_t i = 0; i < dims[d]; ++i) from.back().push_back(source(mode, i - begin[d], x.dims[d]) * x.strides[d]);
      count *= dims[d];
    }
  }
  template <class F>
  void each(F f) const {
    const size_t rank = dims.size();
    if (rank == 0) return f(int64_t{0}, int64_t{0});
    const int64_t row = dims.back();
    for (int64_t i = 0; i < count; i += row) {
      int64_t rest = i / row, a = 0, b = 0;
      for (size_t d = rank - 1; d-- > 0;) {
        const int64_t at = rest % dims[d];
        rest /= dims[d];
        a += from[d][static_cast<size_t>(at)];
        b += at * strides[d];
      }
      for (int64_t j = 0; j < row; ++j) f(a + from[rank - 1][static_cast<size_t>(j)], b + j * strides[rank - 1]);
    }
  }
};

class ConstantPad : public Kernel {
 public:
  explicit ConstantPad(const NodeView& n) : size_(eb::size_of(n.in(0).dtype)), count_(n.out(0).count()), value_(n.in(2).present()) {
    copy_ = common_part(n.in(0), n.out(0), pads_of(n, n.in(0)).first, false);
  }
  void run(const RunContext& c) override {
    const uint64_t zero = 0;
    fill_elements(size_, value_ ? c.inputs[2] : &zero, c.outputs[0], count_);
    copy_.run(c.inputs[0], c.outputs[0]);
  }

 private:
  size_t size_;
  int64_t count_;
  bool value_;
  StridedCopy copy_;
};

class CopyingPad : public Kernel {
 public:
  explicit CopyingPad(const NodeView& n) : size_(eb::size_of(n.in(0).dtype)), lookup_(n.in(0), n.out(0), pads_of(n, n.in(0)).first, n.attr_string("mode", "")) {}
  void run(const RunContext& c) override {
    with_element(size_, [&](auto t) {
      using T = decltype(t);
      const T* x = c.in<T>(0);
      T* y = c.out<T>(0);
      lookup_.each([&](int64_t from, int64_t to) { y[to] = x[from]; });
    });
  }

 private:
  size_t size_;
  Lookup lookup_;
};

std::vector<int64_t> begins(const NodeView& n) {
  std::vector<int64_t> pads = n.attr_ints("pads");
  pads.resize(pads.size() / 2);
  return pads;
}

class ConstantPadGrad : public Kernel {
 public:
  explicit ConstantPadGrad(const NodeView& n) : bytes_(static_cast<size_t>(n.out(0).bytes())), copy_(common_part(n.out(0), n.in(0), begins(n), true)) {}
  void run(const RunContext& c) override {
    std::memset(c.outputs[0], 0, bytes_);
    copy_.run(c.inputs[0], c.outputs[0]);
  }

 private:
  size_t bytes_;
  StridedCopy copy_;
};

template <class T>
class CopyingPadGrad : public Kernel {
 public:
  explicit CopyingPadGrad(const NodeView& n) : bytes_(static_cast<size_t>(n.out(0).bytes())), lookup_(n.out(0), n.in(0), begins(n), n.attr_string("mode", "")) {}
  void run(const RunContext& c) override {
    std::memset(c.outputs[0], 0, bytes_);
    const T* dy = c.in<T>(0);
    T* dx = c.out<T>(0);
    lookup_.each([&](int64_t to, int64_t from) { dx[to] += dy[from]; });
  }

 private:
  size_t bytes_;
  Lookup lookup_;
};

std::unique_ptr<Kernel> create_pad(const NodeView& n, int) {
  if (n.attr_string("mode", "constant") == "constant") return std::make_unique<ConstantPad>(n);
  return std::make_unique<CopyingPad>(n);
}
std::unique_ptr<Kernel> create_grad(const NodeView& n, int) {
  if (n.attr_string("mode", "constant") == "constant") return std::make_unique<ConstantPadGrad>(n);
  if (n.in(0).dtype == EB_FLOAT64) return std::make_unique<CopyingPadGrad<double>>(n);
  return std::make_unique<CopyingPadGrad<float>>(n);
}

std::string dense_output(const NodeView& n) { return n.out(0).row_major() || n.out(0).channels_last() ? "" : "output 0 has gaps"; }

}  // namespace

std::span<const KernelDef> pad_kernels() {
  static const KernelDef defs[] = {
      {.op = "Pad", .name = "strided", .types = kAllTypes, .host_inputs = 0xa, .can_run = dense_output, .create = create_pad},
      {.domain = "ai.engine", .op = "PadGrad", .name = "strided", .types = kFloats, .can_run = dense_output, .create = create_grad},
  };
  return defs;
}

}  // namespace eng::cpu

// See gemm.h.
#include "backends/cpu/gemm.h"

#include <omp.h>

#include <algorithm>
#include <type_traits>
#include <unordered_map>

#include "backends/cpu/onednn.h"

namespace eng::cpu {
namespace {

// Below this many multiply-adds a second thread costs more than it brings.
constexpr double kParallelWork = 4e5;

template <class T>
void scale_or_clear(const GemmSpec& s, const T* bias, T* c, int64_t batch_offset) {
  for (int64_t i = 0; i < s.m; ++i)
    for (int64_t j = 0; j < s.n; ++j) {
      T& to = c[batch_offset + i * s.c.row + j];
      to = static_cast<T>((s.accumulate ? to : T(0)) + (s.bias ? bias[j] : T(0)));
    }
}

int64_t offset_of(const MatrixStrides& s, const std::vector<int64_t>& batch, int64_t index) {
  int64_t offset = 0;
  for (size_t d = batch.size(); d-- > 0 && !s.batch.empty();) {
    offset += index % batch[d] * s.batch[d];
    index /= batch[d];
  }
  return offset;
}

int64_t batch_count(const GemmSpec& s) {
  int64_t n = 1;
  for (int64_t d : s.batch) n *= d;
  return n;
}

// Any element type: plain loops, a product per batch index.
template <class T>
class GenericGemm : public Gemm<T> {
 public:
  explicit GenericGemm(const GemmSpec& spec) : s_(spec) {}
  void run(const T* a, const T* b, const T* bias, T* c, void*) override {
    for (int64_t i = 0, count = batch_count(s_); i < count; ++i) {
      const int64_t at = offset_of(s_.c, s_.batch, i);
      scale_or_clear(s_, bias, c, at);
      multiply(a + offset_of(s_.a, s_.batch, i), b + offset_of(s_.b, s_.batch, i), c + at);
    }
  }

 private:
  void multiply(const T* a, const T* b, T* c) const {
    if (!s_.m || !s_.n || !s_.k) return;
    for (int64_t i = 0; i < s_.m; ++i)
      for (int64_t k = 0; k < s_.k; ++k) {
        const T x = static_cast<T>(a[i * s_.a.row + k * s_.a.column] * static_cast<T>(s_.alpha));
        for (int64_t j = 0; j < s_.n; ++j) c[i * s_.c.row + j] = static_cast<T>(c[i * s_.c.row + j] + x * b[k * s_.b.row + j * s_.b.column]);
      }
  }
  GemmSpec s_;
};

class OnednnGemm : public Gemm<float> {
 public:
  OnednnGemm(const GemmSpec& s, int threads) : spec_(s), stream_(dnnl_engine()) {
    empty_ = !s.m || !s.n || !batch_count(s);
    no_sum_ = !empty_ && !s.k;
    if (empty_ || no_sum_) return;
    const int before = omp_get_max_threads();
    const double work = static_cast<double>(s.m) * static_cast<double>(s.n) * static_cast<double>(s.k) * static_cast<double>(batch_count(s));
    omp_set_num_threads(work < kParallelWork ? 1 : threads);
    build(s);
    omp_set_num_threads(before);
  }
  size_t workspace() const override { return scratch_bytes_; }
  void run(const float* a, const float* b, const float* bias, float* c, void* workspace) override {
    if (empty_) return;
    if (no_sum_) {
      for (int64_t i = 0, count = batch_count(spec_); i < count; ++i) scale_or_clear(spec_, bias, c, offset_of(spec_.c, spec_.batch, i));
      return;
    }
    a_.set_data_handle(const_cast<float*>(a));
    b_.set_data_handle(const_cast<float*>(b));
    c_.set_data_handle(c);
    if (spec_.bias) bias_.set_data_handle(const_cast<float*>(bias));
    if (scratch_bytes_) scratch_.set_data_handle(workspace);
    primitive_.execute(stream_);
  }

 private:
  using memory = dnnl::memory;
  static memory::desc describe(const GemmSpec& s, const MatrixStrides& m, int64_t rows, int64_t columns) {
    memory::dims dims, strides;
    int64_t outer = std::max(rows * m.row, columns * m.column);
    for (size_t d = s.batch.size(); d-- > 0;) {  // a broadcast axis has extent 1 and a harmless stride
      const int64_t stride = m.batch.empty() ? 0 : m.batch[d];
      dims.insert(dims.begin(), stride ? s.batch[d] : 1);
      strides.insert(strides.begin(), stride ? stride : outer);
      outer = std::max(outer, dims.front() * strides.front());
    }
    dims.insert(dims.end(), {rows, columns});
    // A dimension of extent 1 may have any stride; give it the one that a dense matrix has.
    strides.insert(strides.end(), {rows == 1 && m.column == 1 ? std::max(m.row, columns) : m.row, columns == 1 && m.row == 1 ? std::max(m.column, rows) : m.column});
    return {dims, memory::data_type::f32, strides};
  }
  void build(const GemmSpec& s) {
    const auto a = describe(s, s.a, s.m, s.k), b = describe(s, s.b, s.k, s.n), c = describe(s, s.c, s.m, s.n);
    dnnl::primitive_attr attr;
    attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    dnnl::post_ops post;
    if (s.alpha != 1) post.append_eltwise(dnnl::algorithm::eltwise_linear, s.alpha, 0);
    if (s.accumulate) post.append_sum(1);
    attr.set_post_ops(post);
    memory::dims ones(s.batch.size() + 1, 1);
    ones.push_back(s.n);
    const memory::desc bias = s.bias ? memory::desc(ones, memory::data_type::f32, row_strides(ones)) : memory::desc();
    dnnl::matmul::primitive_desc pd =
        s.bias ? dnnl::matmul::primitive_desc(dnnl_engine(), a, b, bias, c, attr) : dnnl::matmul::primitive_desc(dnnl_engine(), a, b, c, attr);
    a_ = memory(a, dnnl_engine(), nullptr);
    b_ = memory(b, dnnl_engine(), nullptr);
    c_ = memory(c, dnnl_engine(), nullptr);
    std::unordered_map<int, memory> arguments = {{DNNL_ARG_SRC, a_}, {DNNL_ARG_WEIGHTS, b_}, {DNNL_ARG_DST, c_}};
    if (s.bias) {
      bias_ = memory(bias, dnnl_engine(), nullptr);
      arguments.insert({DNNL_ARG_BIAS, bias_});
    }
    scratch_bytes_ = pd.scratchpad_desc().get_size();
    if (scratch_bytes_) {
      scratch_ = memory(pd.scratchpad_desc(), dnnl_engine(), nullptr);
      arguments.insert({DNNL_ARG_SCRATCHPAD, scratch_});
    }
    primitive_ = DnnlCall(dnnl::matmul(pd), std::move(arguments));
  }
  static memory::dims row_strides(const memory::dims& dims) {
    memory::dims strides(dims.size());
    int64_t n = 1;
    for (size_t d = dims.size(); d-- > 0; n *= dims[d]) strides[d] = n;
    return strides;
  }

  GemmSpec spec_;
  dnnl::stream stream_;
  DnnlCall primitive_;
  memory a_, b_, c_, bias_, scratch_;
  size_t scratch_bytes_ = 0;
  bool empty_ = false, no_sum_ = false;
};

}  // namespace

template <class T>
std::unique_ptr<Gemm<T>> Gemm<T>::create(const GemmSpec& spec, [[maybe_unused]] int threads) {
  if constexpr (std::is_same_v<T, float>) return std::make_unique<OnednnGemm>(spec, threads);
  else return std::make_unique<GenericGemm<T>>(spec);
}

template class Gemm<float>;
template class Gemm<double>;
template class Gemm<int32_t>;
template class Gemm<int64_t>;
template class Gemm<uint32_t>;
template class Gemm<uint64_t>;

}  // namespace eng::cpu

// GRU, ai.engine::GruTraining and ai.engine::GruGrad; formulas in graph/ops/gru.cpp, the plan in backends/cpu/recurrent.h.
// Gates lie as [steps, batch, 3 * hidden] in the order z, r, h. `extra` [steps, batch, hidden] is the part of reserve behind them:
// H Rh^T + Rbh (linear_before_reset) or r (.) H.
#include <cstring>

#include "backends/cpu/half_adapter.h"
#include "backends/cpu/recurrent.h"

namespace eng::cpu {
namespace {

const std::vector<Activation::Kind> kDefaults = {Activation::kSigmoid, Activation::kTanh};

template <class T>
struct Functions {
  Clipped<T> f, g;
};

// z and r (reset first half of a step): gates come as sums.
template <class T, bool kFast>
void gates_zr(int64_t n, T* gates, const Functions<T>& fn) {
#pragma omp simd
  for (int64_t j = 0; j < 2 * n; ++j) gates[j] = kFast ? fast_sigmoid(gates[j]) : fn.f(gates[j]);
}

// h and the new state; `extra` is added to the h sum as it is given (reset applied where wanted).
template <class T, bool kFast, bool kLinear>
void new_state(int64_t n, T* gates, const T* extra, const T* past, T* next, const Functions<T>& fn) {
  const T *z = gates, *r = gates + n;
  T* c = gates + 2 * n;
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) {
    const T sum = kLinear ? c[j] + r[j] * extra[j] : c[j];
    const T candidate = kFast ? fast_tanh(sum) : fn.g(sum);
    c[j] = candidate;
    next[j] = (T(1) - z[j]) * candidate + z[j] * past[j];
  }
}

template <class T>
class Gru : public Kernel {
 public:
  Gru(const NodeView& n, int threads) : s_(n, kDefaults), ranges_(cut_batch(s_.batch, threads)), reserve_(n.out(2).present()), linear_(n.attr_int("linear_before_reset", 0)) {
    fast_ = s_.default_activations(kDefaults) && s_.clip == 0;
    const int64_t h = s_.hidden, rows = s_.rows;
    project_ = Gemm<T>::create(product(s_.cells(), rows, s_.input, matrix(s_.input), matrix(s_.input, true), rows, false, true), threads);
    zr_ = StepProducts<T>(ranges_, [&](int64_t m) { return product(m, 2 * h, h, matrix(h), matrix(rows), rows, true); });
    // H Rh^T + Rbh into extra, or (r (.) H) Rh^T onto the h sums.
    h_step_ = StepProducts<T>(ranges_, [&](int64_t m) {
      return linear_ ? product(m, h, h, matrix(h), matrix(rows), h, false, true) : product(m, h, h, matrix(h), matrix(rows), rows, true);
    });
    bias_ = plan_.add<T>(rows);
    bias_h_ = plan_.add<T>(h);
    r_ = plan_.add<T>(rows * h);
    h_ = plan_.add<T>(2 * s_.batch * h);
    if (!reserve_) gates_ = plan_.add<T>(s_.cells() * rows);
    if (!reserve_) extra_ = plan_.add<T>(s_.batch * h);
    scratch_ = plan_.add<char>(static_cast<int64_t>(std::max(project_->workspace(), each_scratch() * ranges_.size())));
  }
  size_t workspace() const override { return plan_.bytes(); }
  void run(const RunContext& c) override {
    for (int64_t d = 0; d < s_.directions; ++d) run_direction(c, d);
  }

 private:
  void run_direction(const RunContext& c, int64_t d) {
    const int64_t h = s_.hidden, rows = s_.rows, states = s_.batch * h;
    T *bias = part<T>(c.workspace, bias_), *bias_h = part<T>(c.workspace, bias_h_), *r = part<T>(c.workspace, r_);
    T* reserve = reserve_ ? s_.out<T>(c, 2) + d * s_.cells() * 4 * h : nullptr;
    T* gates = reserve_ ? reserve : part<T>(c.workspace, gates_);
    void* scratch = part<char>(c.workspace, scratch_);
    const T* b = s_.in<T>(c, 3) ? s_.in<T>(c, 3) + 2 * d * rows : nullptr;
    for (int64_t j = 0; j < rows; ++j) {
      const bool apart = linear_ && j >= 2 * h;  // Rbh is scaled by r then
      bias[j] = b ? b[j] + (apart ? T(0) : b[rows + j]) : T(0);
      if (apart) bias_h[j - 2 * h] = b ? b[rows + j] : T(0);
    }
    transpose(s_.in<T>(c, 2) + d * rows * h, r, rows, h);
    T* now = part<T>(c.workspace, h_);
    T* next = now + states;
    if (s_.has_in(5)) std::copy_n(s_.in<T>(c, 5) + d * states, states, now);
    else std::fill_n(now, states, T(0));
    project_->run(s_.in<T>(c, 0), s_.in<T>(c, 1) + d * rows * s_.input, bias, gates, scratch);
#pragma omp parallel for schedule(static, 1)
    for (size_t k = 0; k < ranges_.size(); ++k) {
      T *from = now, *to = next;
      for (int64_t i = 0; i < s_.steps; ++i) {
        const int64_t t = s_.time(d, i), b = ranges_[k].begin;
        T* g = gates + t * s_.batch * rows;
        T* extra = reserve_ ? reserve + s_.cells() * rows + t * states : part<T>(c.workspace, extra_);
        char* own = static_cast<char*>(scratch) + k * each_scratch();
        zr_[k].run(from + b * h, r, nullptr, g + b * rows, own);
        if (linear_) h_step_[k].run(from + b * h, r + 2 * h, bias_h, extra + b * h, own);
        if (fast_) step<true>(c, d, t, k, g, r, extra, from, to, own);
        else step<false>(c, d, t, k, g, r, extra, from, to, own);
        std::swap(from, to);
      }
    }
    if (s_.steps % 2) std::swap(now, next);
    if (s_.has_out(1)) std::copy_n(now, states, s_.out<T>(c, 1) + d * states);
  }

  template <bool kFast>
  void step(const RunContext& c, int64_t d, int64_t t, size_t k, T* gates, const T* r, T* extra, const T* now, T* next, char* scratch) const {
    const int64_t h = s_.hidden, rows = s_.rows;
    const Functions<T> fn = {s_.activation<T>(d, 0), s_.activation<T>(d, 1)};
    const auto* lens = s_.in<int32_t>(c, 4);
    const SampleRange range = ranges_[k];
    for (int64_t b = range.begin; b < range.end; ++b) {
      gates_zr<T, kFast>(h, gates + b * rows, fn);
      if (linear_) continue;
      for (int64_t j = 0; j < h; ++j) extra[b * h + j] = gates[b * rows + h + j] * now[b * h + j];
    }
    if (!linear_) h_step_[k].run(extra + range.begin * h, r + 2 * h, nullptr, gates + range.begin * rows + 2 * h, scratch);
    for (int64_t b = range.begin; b < range.end; ++b) {
      T* y = s_.has_out(0) ? s_.out<T>(c, 0) + ((t * s_.directions + d) * s_.batch + b) * h : nullptr;
      if (is_valid(lens, b, t)) {
        if (linear_) new_state<T, kFast, true>(h, gates + b * rows, extra + b * h, now + b * h, next + b * h, fn);
        else new_state<T, kFast, false>(h, gates + b * rows, extra + b * h, now + b * h, next + b * h, fn);
        if (y) std::copy_n(next + b * h, h, y);
        continue;
      }
      std::copy_n(now + b * h, h, next + b * h);
      std::fill_n(gates + b * rows, rows, T(0));
      std::fill_n(extra + b * h, h, T(0));
      if (y) std::fill_n(y, h, T(0));
    }
  }

  size_t each_scratch() const { return std::max(zr_.workspace(), h_step_.workspace()); }

  Recurrent s_;
  std::vector<SampleRange> ranges_;
  bool reserve_, linear_, fast_;
  std::unique_ptr<Gemm<T>> project_;
  StepProducts<T> zr_, h_step_;
  WorkspacePlan plan_;
  size_t bias_, bias_h_, r_, h_, gates_ = 0, extra_ = 0, scratch_;
};

// X, W, R, lens, h0, Y, reserve, dY, dY_h -> dX, dW, dR, dB, dh0
template <class T>
class GruGrad : public Kernel {
 public:
  GruGrad(const NodeView& n, int threads) : s_(n, kDefaults), ranges_(cut_batch(s_.batch, threads)), linear_(n.attr_int("linear_before_reset", 0)) {
    const int64_t h = s_.hidden, rows = s_.rows, cells = s_.cells();
    size_t scratch = 0;
    auto make = [&](GemmSpec spec) {
      auto g = Gemm<T>::create(spec, threads);
      scratch = std::max(scratch, g->workspace());
      return g;
    };
    // Gradients of the sums lie as [cells, 4 * hidden]: z, r, h and (linear_before_reset) that of H Rh^T + Rbh.
    const int64_t wide = 4 * h;
    zr_ = StepProducts<T>(ranges_, [&](int64_t m) { return product(m, h, 2 * h, matrix(wide), matrix(h), h, true); });
    h_step_ = StepProducts<T>(ranges_, [&](int64_t m) { return product(m, h, h, matrix(wide), matrix(h), h, linear_); });
    scratch = each_scratch() * ranges_.size();
    if (n.out(0).present()) dx_[0] = make(product(cells, s_.input, rows, matrix(wide), matrix(s_.input), s_.input));
    if (n.out(0).present() && s_.directions > 1) dx_[1] = make(product(cells, s_.input, rows, matrix(wide), matrix(s_.input), s_.input, true));
    if (n.out(1).present()) dw_ = make(product(rows, s_.input, cells, matrix(wide, true), matrix(s_.input), s_.input));
    if (n.out(2).present()) dr_zr_ = make(product(2 * h, h, cells, matrix(wide, true), matrix(h), h));
    if (n.out(2).present()) dr_h_ = make(product(h, h, cells, matrix(wide, true), matrix(h), h));
    dg_ = plan_.add<T>(cells * wide);
    dh_ = plan_.add<T>(s_.batch * h);
    reset_ = plan_.add<T>(s_.batch * h);
    before_ = plan_.add<T>(cells * h);
    scratch_ = plan_.add<char>(static_cast<int64_t>(scratch));
  }
  size_t workspace() const override { return plan_.bytes(); }
  void run(const RunContext& c) override {
    for (int64_t d = 0; d < s_.directions; ++d) {
      previous_states(s_, d, s_.in<T>(c, 5), s_.in<T>(c, 4), s_.in<int32_t>(c, 3), part<T>(c.workspace, before_));
      run_steps(c, d);
      run_sums(c, d);
    }
  }

 private:
  void run_steps(const RunContext& c, int64_t d) {
    const int64_t h = s_.hidden, states = s_.batch * h;
    T *dg = part<T>(c.workspace, dg_), *dh = part<T>(c.workspace, dh_), *reset = part<T>(c.workspace, reset_);
    const T* r = s_.in<T>(c, 2) + d * s_.rows * h;
    void* scratch = part<char>(c.workspace, scratch_);
    if (s_.has_in(8)) std::copy_n(s_.in<T>(c, 8) + d * states, states, dh);
    else std::fill_n(dh, states, T(0));
#pragma omp parallel for schedule(static, 1)
    for (size_t k = 0; k < ranges_.size(); ++k)
      for (int64_t i = s_.steps; i-- > 0;) {
        const int64_t t = s_.time(d, i), b = ranges_[k].begin;
        T *g = dg + t * s_.batch * 4 * h, *own = g + b * 4 * h;
        char* room = static_cast<char*>(scratch) + k * each_scratch();
        open_step(c, d, t, ranges_[k], g, dh);
        if (linear_) {
          h_step_[k].run(own + 3 * h, r + 2 * h * h, nullptr, dh + b * h, room);
        } else {
          h_step_[k].run(own + 2 * h, r + 2 * h * h, nullptr, reset + b * h, room);  // gradient of r (.) H
          close_reset(c, d, t, ranges_[k], g, dh, reset);
        }
        zr_[k].run(own, r, nullptr, dh + b * h, room);
      }
    if (s_.has_out(4)) std::copy_n(dh, states, s_.out<T>(c, 4) + d * states);
  }

  // Gradients of the z and h sums (and, linear, of r and H Rh^T + Rbh); dh becomes the direct part of the state before the step.
  void open_step(const RunContext& c, int64_t d, int64_t t, SampleRange range, T* g, T* dh) const {
    const int64_t h = s_.hidden;
    const Clipped<T> f = s_.activation<T>(d, 0), tanh = s_.activation<T>(d, 1);
    const T* reserve = s_.in<T>(c, 6) + d * s_.cells() * 4 * h;
    const T* before = part<T>(c.workspace, before_);
    for (int64_t b = range.begin; b < range.end; ++b) {
      const int64_t row = t * s_.batch + b;
      T* dg = g + b * 4 * h;
      if (!is_valid(s_.in<int32_t>(c, 3), b, t)) {
        std::fill_n(dg, 4 * h, T(0));
        continue;
      }
      const T *gates = reserve + row * s_.rows, *extra = reserve + s_.cells() * s_.rows + row * h, *past = before + row * h;
      const T* dy = s_.has_in(7) ? s_.in<T>(c, 7) + ((t * s_.directions + d) * s_.batch + b) * h : nullptr;
      for (int64_t j = 0; j < h; ++j) {
        const T z = gates[j], r = gates[h + j], candidate = gates[2 * h + j];
        const T whole = dh[b * h + j] + (dy ? dy[j] : T(0));
        const T of_h = whole * (T(1) - z) * tanh.slope_at(candidate);
        dg[j] = whole * (past[j] - candidate) * f.slope_at(z);
        dg[h + j] = linear_ ? of_h * extra[j] * f.slope_at(r) : T(0);
        dg[2 * h + j] = of_h;
        dg[3 * h + j] = linear_ ? of_h * r : T(0);
        dh[b * h + j] = whole * z;
      }
    }
  }

  void close_reset(const RunContext& c, int64_t d, int64_t t, SampleRange range, T* g, T* dh, const T* reset) const {
    const int64_t h = s_.hidden;
    const Clipped<T> f = s_.activation<T>(d, 0);
    const T* gates = s_.in<T>(c, 6) + d * s_.cells() * 4 * h + t * s_.batch * s_.rows;
    const T* before = part<T>(c.workspace, before_) + t * s_.batch * h;
    for (int64_t b = range.begin; b < range.end; ++b) {
      if (!is_valid(s_.in<int32_t>(c, 3), b, t)) continue;
      for (int64_t j = 0; j < h; ++j) {
        const T r = gates[b * s_.rows + h + j], of_reset = reset[b * h + j];
        g[b * 4 * h + h + j] = of_reset * before[b * h + j] * f.slope_at(r);
        dh[b * h + j] += of_reset * r;
      }
    }
  }

  void run_sums(const RunContext& c, int64_t d) {
    const int64_t h = s_.hidden, rows = s_.rows, wide = 4 * h;
    const T *dg = part<T>(c.workspace, dg_), *before = part<T>(c.workspace, before_);
    void* scratch = part<char>(c.workspace, scratch_);
    if (s_.has_out(0)) dx_[d]->run(dg, s_.in<T>(c, 1) + d * rows * s_.input, nullptr, s_.out<T>(c, 0), scratch);
    if (dw_) dw_->run(dg, s_.in<T>(c, 0), nullptr, s_.out<T>(c, 1) + d * rows * s_.input, scratch);
    if (dr_zr_) {
      T* dr = s_.out<T>(c, 2) + d * rows * h;
      const T* resets = s_.in<T>(c, 6) + d * s_.cells() * 4 * h + s_.cells() * rows;
      dr_zr_->run(dg, before, nullptr, dr, scratch);
      if (linear_) dr_h_->run(dg + 3 * h, before, nullptr, dr + 2 * h * h, scratch);
      else dr_h_->run(dg + 2 * h, resets, nullptr, dr + 2 * h * h, scratch);
    }
    if (s_.has_out(3)) {
      T* db = s_.out<T>(c, 3) + 2 * d * rows;
      column_sums(dg, s_.cells(), rows, wide, db);
      std::copy_n(db, rows, db + rows);
      if (linear_) column_sums(dg + 3 * h, s_.cells(), h, wide, db + rows + 2 * h);
    }
  }

  size_t each_scratch() const { return std::max(zr_.workspace(), h_step_.workspace()); }

  Recurrent s_;
  std::vector<SampleRange> ranges_;
  bool linear_;
  StepProducts<T> zr_, h_step_;
  std::unique_ptr<Gemm<T>> dx_[2], dw_, dr_zr_, dr_h_;
  WorkspacePlan plan_;
  size_t dg_, dh_, reset_, before_, scratch_;
};

template <template <class> class K>
std::unique_ptr<Kernel> create_typed(const NodeView& n, int threads) {
  if (has_half(n)) return create_widened(n, threads, create_typed<K>);
  if (n.in(0).dtype == EB_FLOAT64) return std::make_unique<K<double>>(n, threads);
  return std::make_unique<K<float>>(n, threads);
}
std::unique_ptr<Kernel> create_gru(const NodeView& n, int threads) {
  if (n.attr_int("layout", 0) == 0) return create_typed<Gru>(n, threads);
  return create_batch_major(n, threads, {.pair_inputs = {0, 5}, .y_inputs = {}, .pair_outputs = {1}, .y_outputs = {0}}, create_typed<Gru>);
}
std::unique_ptr<Kernel> create_grad(const NodeView& n, int threads) {
  if (n.attr_int("layout", 0) == 0) return create_typed<GruGrad>(n, threads);
  return create_batch_major(n, threads, {.pair_inputs = {0, 4, 8}, .y_inputs = {5, 7}, .pair_outputs = {0, 4}, .y_outputs = {}}, create_typed<GruGrad>);
}

}  // namespace

std::span<const KernelDef> gru_kernels() {
  static const KernelDef defs[] = {
      {.op = "GRU", .name = "onednn", .types = kFloats | kHalves, .create = create_gru},
      {.domain = "ai.engine", .op = "GruTraining", .name = "onednn", .types = kFloats | kHalves, .create = create_gru},
      {.domain = "ai.engine", .op = "GruGrad", .name = "onednn", .types = kFloats | kHalves, .create = create_grad},
  };
  return defs;
}

}  // namespace eng::cpu

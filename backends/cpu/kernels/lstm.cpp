// LSTM, ai.engine::LstmTraining and ai.engine::LstmGrad; formulas in graph/ops/lstm.cpp, the plan in backends/cpu/recurrent.h.
// Gates lie as [steps, batch, 4 * hidden] in the order i, o, f, c; `kFast` is the plain network (sigmoid, tanh, tanh, nothing else),
// whose loops become vector code.
#include <cstring>

#include "backends/cpu/half_adapter.h"
#include "backends/cpu/recurrent.h"

namespace eng::cpu {
namespace {

const std::vector<Activation::Kind> kDefaults = {Activation::kSigmoid, Activation::kTanh, Activation::kTanh};

template <class T>
struct Functions {
  Clipped<T> f, g, h;
  bool input_forget;
};

template <class T>
Functions<T> functions_of(const Recurrent& s, int64_t direction, bool input_forget) {
  return {s.activation<T>(direction, 0), s.activation<T>(direction, 1), s.activation<T>(direction, 2), input_forget};
}

// One sample's step: gates come as sums and leave activated. p: peepholes i, o, f or null.
template <class T, bool kFast>
void forward_cell(int64_t n, T* gates, T* c, T* h, T* y, T* kept, const Functions<T>& fn, const T* p) {
  T *gi = gates, *go = gates + n, *gf = gates + 2 * n, *gc = gates + 3 * n;
  if constexpr (kFast) {
#pragma omp simd
    for (int64_t j = 0; j < n; ++j) {
      const T i = fast_sigmoid(gi[j]), f = fast_sigmoid(gf[j]), z = fast_tanh(gc[j]), o = fast_sigmoid(go[j]);
      const T cell = f * c[j] + i * z;
      gi[j] = i;
      gf[j] = f;
      gc[j] = z;
      go[j] = o;
      c[j] = cell;
      h[j] = o * fast_tanh(cell);
    }
  } else {
    for (int64_t j = 0; j < n; ++j) {
      const T i = fn.f(gi[j] + (p ? p[j] * c[j] : T(0)));
      const T f = fn.input_forget ? T(1) - i : fn.f(gf[j] + (p ? p[2 * n + j] * c[j] : T(0)));
      const T z = fn.g(gc[j]), cell = f * c[j] + i * z, o = fn.f(go[j] + (p ? p[n + j] * cell : T(0)));
      gi[j] = i;
      gf[j] = f;
      gc[j] = z;
      go[j] = o;
      c[j] = cell;
      h[j] = o * fn.h(cell);
    }
  }
  if (y) std::memcpy(y, h, static_cast<size_t>(n) * sizeof(T));
  if (kept) std::memcpy(kept, c, static_cast<size_t>(n) * sizeof(T));
}

template <class T>
class Lstm : public Kernel {
 public:
  Lstm(const NodeView& n, int threads)
      : s_(n, kDefaults), ranges_(cut_batch(s_.batch, threads)), reserve_(n.out(3).present()), input_forget_(n.attr_int("input_forget", 0)) {
    fast_ = s_.default_activations(kDefaults) && s_.clip == 0 && !input_forget_ && !n.in(7).present();
    const int64_t h = s_.hidden, rows = s_.rows;
    project_ = Gemm<T>::create(product(s_.cells(), rows, s_.input, matrix(s_.input), matrix(s_.input, true), rows, false, true), threads);
    step_ = StepProducts<T>(ranges_, [&](int64_t m) { return product(m, rows, h, matrix(h), matrix(rows), rows, true); });
    bias_ = plan_.add<T>(rows);
    r_ = plan_.add<T>(rows * h);
    h_ = plan_.add<T>(2 * s_.batch * h);
    c_ = plan_.add<T>(s_.batch * h);
    if (!reserve_) gates_ = plan_.add<T>(s_.cells() * rows);
    scratch_ = plan_.add<char>(static_cast<int64_t>(std::max(project_->workspace(), step_.workspace() * ranges_.size())));
  }
  size_t workspace() const override { return plan_.bytes(); }
  void run(const RunContext& c) override {
    for (int64_t d = 0; d < s_.directions; ++d) run_direction(c, d);
  }

 private:
  void run_direction(const RunContext& c, int64_t d) {
    const int64_t h = s_.hidden, rows = s_.rows, states = s_.batch * h;
    T *bias = part<T>(c.workspace, bias_), *r = part<T>(c.workspace, r_), *cell = part<T>(c.workspace, c_);
    T* reserve = reserve_ ? s_.out<T>(c, 3) + d * s_.cells() * 5 * h : nullptr;
    T* gates = reserve_ ? reserve : part<T>(c.workspace, gates_);
    T* kept = reserve_ ? reserve + s_.cells() * rows : nullptr;
    void* scratch = part<char>(c.workspace, scratch_);
    const T* b = s_.in<T>(c, 3);
    for (int64_t j = 0; j < rows; ++j) bias[j] = b ? b[2 * d * rows + j] + b[(2 * d + 1) * rows + j] : T(0);
    transpose(s_.in<T>(c, 2) + d * rows * h, r, rows, h);
    T* now = part<T>(c.workspace, h_);
    T* next = now + states;
    if (s_.has_in(5)) std::copy_n(s_.in<T>(c, 5) + d * states, states, now);
    else std::fill_n(now, states, T(0));
    if (s_.has_in(6)) std::copy_n(s_.in<T>(c, 6) + d * states, states, cell);
    else std::fill_n(cell, states, T(0));
    project_->run(s_.in<T>(c, 0), s_.in<T>(c, 1) + d * rows * s_.input, bias, gates, scratch);
#pragma omp parallel for schedule(static, 1)
    for (size_t k = 0; k < ranges_.size(); ++k) {
      T *from = now, *to = next;
      for (int64_t i = 0; i < s_.steps; ++i) {
        const int64_t t = s_.time(d, i), b = ranges_[k].begin;
        step_[k].run(from + b * h, r, nullptr, gates + (t * s_.batch + b) * rows, static_cast<char*>(scratch) + k * step_.workspace());
        if (fast_) step<true>(c, d, t, ranges_[k], gates, kept, cell, from, to);
        else step<false>(c, d, t, ranges_[k], gates, kept, cell, from, to);
        std::swap(from, to);
      }
    }
    if (s_.steps % 2) std::swap(now, next);
    if (s_.has_out(1)) std::copy_n(now, states, s_.out<T>(c, 1) + d * states);
    if (s_.has_out(2)) std::copy_n(cell, states, s_.out<T>(c, 2) + d * states);
  }

  template <bool kFast>
  void step(const RunContext& c, int64_t d, int64_t t, SampleRange range, T* gates, T* kept, T* cell, const T* now, T* next) const {
    const int64_t h = s_.hidden;
    const Functions<T> fn = functions_of<T>(s_, d, input_forget_);
    const T* p = s_.has_in(7) ? s_.in<T>(c, 7) + d * 3 * h : nullptr;
    const auto* lens = s_.in<int32_t>(c, 4);
    for (int64_t b = range.begin; b < range.end; ++b) {
      T* g = gates + (t * s_.batch + b) * s_.rows;
      T* y = s_.has_out(0) ? s_.out<T>(c, 0) + ((t * s_.directions + d) * s_.batch + b) * h : nullptr;
      T* keep = kept ? kept + (t * s_.batch + b) * h : nullptr;
      if (is_valid(lens, b, t)) {
        forward_cell<T, kFast>(h, g, cell + b * h, next + b * h, y, keep, fn, p);
        continue;
      }
      std::copy_n(now + b * h, h, next + b * h);
      std::fill_n(g, s_.rows, T(0));
      if (y) std::fill_n(y, h, T(0));
      if (keep) std::fill_n(keep, h, T(0));
    }
  }

  Recurrent s_;
  std::vector<SampleRange> ranges_;
  bool reserve_, input_forget_, fast_;
  std::unique_ptr<Gemm<T>> project_;
  StepProducts<T> step_;
  WorkspacePlan plan_;
  size_t bias_, r_, h_, c_, gates_ = 0, scratch_;
};

// One sample's step backwards. dh and dc: gradients of the state after the step; dc leaves as that of the cell before it. dg receives
// the gradients of the gates' sums.
template <class T, bool kFast>
void backward_cell(int64_t n, const T* gates, const T* cell, const T* before, const T* dy, const T* dh, T* dc, T* dg, const Functions<T>& fn, const T* p) {
  const T *gi = gates, *go = gates + n, *gf = gates + 2 * n, *gc = gates + 3 * n;
  T *di = dg, *dout = dg + n, *df = dg + 2 * n, *dz = dg + 3 * n;
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) {
    const T i = gi[j], o = go[j], f = gf[j], z = gc[j], c = cell[j], past = before ? before[j] : T(0);
    const T whole = dh[j] + (dy ? dy[j] : T(0));
    if constexpr (kFast) {
      const T hc = fast_tanh(c);
      const T inner = dc[j] + whole * o * (T(1) - hc * hc);
      di[j] = inner * z * i * (T(1) - i);
      dout[j] = whole * hc * o * (T(1) - o);
      df[j] = inner * past * f * (T(1) - f);
      dz[j] = inner * i * (T(1) - z * z);
      dc[j] = inner * f;
    } else {
      const T hc = fn.h(c);
      const T to_o = whole * hc * fn.f.slope_at(o);
      const T inner = dc[j] + whole * o * fn.h.slope_at(hc) + (p ? to_o * p[n + j] : T(0));
      const T of_i = inner * z - (fn.input_forget ? inner * past : T(0));
      const T to_i = of_i * fn.f.slope_at(i), to_f = fn.input_forget ? T(0) : inner * past * fn.f.slope_at(f);
      di[j] = to_i;
      dout[j] = to_o;
      df[j] = to_f;
      dz[j] = inner * i * fn.g.slope_at(z);
      dc[j] = inner * f + (p ? to_i * p[j] + to_f * p[2 * n + j] : T(0));
    }
  }
}

// X, W, R, lens, h0, c0, P, Y, reserve, dY, dY_h, dY_c -> dX, dW, dR, dB, dh0, dc0, dP
template <class T>
class LstmGrad : public Kernel {
 public:
  LstmGrad(const NodeView& n, int threads) : s_(n, kDefaults), ranges_(cut_batch(s_.batch, threads)), input_forget_(n.attr_int("input_forget", 0)) {
    fast_ = s_.default_activations(kDefaults) && s_.clip == 0 && !input_forget_ && !n.in(6).present();
    const int64_t h = s_.hidden, rows = s_.rows, cells = s_.cells();
    step_ = StepProducts<T>(ranges_, [&](int64_t m) { return product(m, h, rows, matrix(rows), matrix(h), h, true); });
    size_t scratch = step_.workspace() * ranges_.size();
    auto make = [&](GemmSpec spec) {
      auto g = Gemm<T>::create(spec, threads);
      scratch = std::max(scratch, g->workspace());
      return g;
    };
    if (n.out(0).present()) dx_[0] = make(product(cells, s_.input, rows, matrix(rows), matrix(s_.input), s_.input));
    if (n.out(0).present() && s_.directions > 1) dx_[1] = make(product(cells, s_.input, rows, matrix(rows), matrix(s_.input), s_.input, true));
    if (n.out(1).present()) dw_ = make(product(rows, s_.input, cells, matrix(rows, true), matrix(s_.input), s_.input));
    if (n.out(2).present()) dr_ = make(product(rows, h, cells, matrix(rows, true), matrix(h), h));
    dg_ = plan_.add<T>(cells * rows);
    dh_ = plan_.add<T>(s_.batch * h);
    dc_ = plan_.add<T>(s_.batch * h);
    if (dr_) before_ = plan_.add<T>(cells * h);
    scratch_ = plan_.add<char>(static_cast<int64_t>(scratch));
  }
  size_t workspace() const override { return plan_.bytes(); }
  void run(const RunContext& c) override {
    for (int64_t d = 0; d < s_.directions; ++d) {
      run_steps(c, d);
      run_sums(c, d);
    }
  }

 private:
  // The cell before step t of sample b, or null for zeros.
  const T* cell_before(const RunContext& c, const T* cells, int64_t d, int64_t t, int64_t b) const {
    const int64_t before = s_.reversed(d) ? t + 1 : t - 1;
    if (before >= 0 && before < s_.steps && is_valid(s_.in<int32_t>(c, 3), b, before)) return cells + (before * s_.batch + b) * s_.hidden;
    return s_.has_in(5) ? s_.in<T>(c, 5) + (d * s_.batch + b) * s_.hidden : nullptr;
  }

  void run_steps(const RunContext& c, int64_t d) {
    const int64_t h = s_.hidden, states = s_.batch * h;
    T *dg = part<T>(c.workspace, dg_), *dh = part<T>(c.workspace, dh_), *dc = part<T>(c.workspace, dc_);
    if (s_.has_in(10)) std::copy_n(s_.in<T>(c, 10) + d * states, states, dh);
    else std::fill_n(dh, states, T(0));
    if (s_.has_in(11)) std::copy_n(s_.in<T>(c, 11) + d * states, states, dc);
    else std::fill_n(dc, states, T(0));
    const T* r = s_.in<T>(c, 2) + d * s_.rows * h;
#pragma omp parallel for schedule(static, 1)
    for (size_t k = 0; k < ranges_.size(); ++k)
      for (int64_t i = s_.steps; i-- > 0;) {
        const int64_t t = s_.time(d, i), b = ranges_[k].begin;
        if (fast_) step<true>(c, d, t, ranges_[k], dg, dh, dc);
        else step<false>(c, d, t, ranges_[k], dg, dh, dc);
        if (i > 0 || s_.has_out(4))
          step_[k].run(dg + (t * s_.batch + b) * s_.rows, r, nullptr, dh + b * h, part<char>(c.workspace, scratch_) + k * step_.workspace());
      }
    if (s_.has_out(4)) std::copy_n(dh, states, s_.out<T>(c, 4) + d * states);
    if (s_.has_out(5)) std::copy_n(dc, states, s_.out<T>(c, 5) + d * states);
  }

  // Takes dh into the gates' gradients and clears it (the product then adds the part of the step before); padding passes dh through.
  template <bool kFast>
  void step(const RunContext& c, int64_t d, int64_t t, SampleRange range, T* dg, T* dh, T* dc) const {
    const int64_t h = s_.hidden;
    const Functions<T> fn = functions_of<T>(s_, d, input_forget_);
    const T* gates = s_.in<T>(c, 8) + d * s_.cells() * 5 * h;
    const T* cells = gates + s_.cells() * s_.rows;
    const T* p = s_.has_in(6) ? s_.in<T>(c, 6) + d * 3 * h : nullptr;
    for (int64_t b = range.begin; b < range.end; ++b) {
      const int64_t row = t * s_.batch + b;
      if (!is_valid(s_.in<int32_t>(c, 3), b, t)) {
        std::fill_n(dg + row * s_.rows, s_.rows, T(0));
        continue;
      }
      const T* dy = s_.has_in(9) ? s_.in<T>(c, 9) + ((t * s_.directions + d) * s_.batch + b) * h : nullptr;
      backward_cell<T, kFast>(h, gates + row * s_.rows, cells + row * h, cell_before(c, cells, d, t, b), dy, dh + b * h, dc + b * h, dg + row * s_.rows, fn, p);
      std::fill_n(dh + b * h, h, T(0));
    }
  }

  void run_sums(const RunContext& c, int64_t d) {
    const int64_t h = s_.hidden, rows = s_.rows;
    const T* dg = part<T>(c.workspace, dg_);
    void* scratch = part<char>(c.workspace, scratch_);
    if (s_.has_out(0)) dx_[d]->run(dg, s_.in<T>(c, 1) + d * rows * s_.input, nullptr, s_.out<T>(c, 0), scratch);
    if (dw_) dw_->run(dg, s_.in<T>(c, 0), nullptr, s_.out<T>(c, 1) + d * rows * s_.input, scratch);
    if (dr_) {
      T* before = part<T>(c.workspace, before_);
      previous_states(s_, d, s_.in<T>(c, 7), s_.in<T>(c, 4), s_.in<int32_t>(c, 3), before);
      dr_->run(dg, before, nullptr, s_.out<T>(c, 2) + d * rows * h, scratch);
    }
    if (s_.has_out(3)) {
      column_sums(dg, s_.cells(), rows, rows, s_.out<T>(c, 3) + 2 * d * rows);
      std::copy_n(s_.out<T>(c, 3) + 2 * d * rows, rows, s_.out<T>(c, 3) + (2 * d + 1) * rows);
    }
    if (s_.has_out(6)) run_peepholes(c, d, dg);
  }

  void run_peepholes(const RunContext& c, int64_t d, const T* dg) const {
    const int64_t h = s_.hidden;
    const T* cells = s_.in<T>(c, 8) + d * s_.cells() * 5 * h + s_.cells() * s_.rows;
    T* dp = s_.out<T>(c, 6) + d * 3 * h;
    std::fill_n(dp, 3 * h, T(0));
    for (int64_t row = 0; row < s_.cells(); ++row) {
      const int64_t t = row / s_.batch, b = row % s_.batch;
      if (!is_valid(s_.in<int32_t>(c, 3), b, t)) continue;
      const T *g = dg + row * s_.rows, *past = cell_before(c, cells, d, t, b);
      for (int64_t j = 0; j < h; ++j) {
        dp[h + j] += g[h + j] * cells[row * h + j];
        if (past) {
          dp[j] += g[j] * past[j];
          dp[2 * h + j] += g[2 * h + j] * past[j];
        }
      }
    }
  }

  Recurrent s_;
  std::vector<SampleRange> ranges_;
  bool input_forget_, fast_;
  StepProducts<T> step_;
  std::unique_ptr<Gemm<T>> dx_[2], dw_, dr_;
  WorkspacePlan plan_;
  size_t dg_, dh_, dc_, before_ = 0, scratch_;
};

template <template <class> class K>
std::unique_ptr<Kernel> create_typed(const NodeView& n, int threads) {
  if (has_half(n)) return create_widened(n, threads, create_typed<K>);
  if (n.in(0).dtype == EB_FLOAT64) return std::make_unique<K<double>>(n, threads);
  return std::make_unique<K<float>>(n, threads);
}
std::unique_ptr<Kernel> create_lstm(const NodeView& n, int threads) {
  if (n.attr_int("layout", 0) == 0) return create_typed<Lstm>(n, threads);
  return create_batch_major(n, threads, {.pair_inputs = {0, 5, 6}, .y_inputs = {}, .pair_outputs = {1, 2}, .y_outputs = {0}}, create_typed<Lstm>);
}
std::unique_ptr<Kernel> create_grad(const NodeView& n, int threads) {
  if (n.attr_int("layout", 0) == 0) return create_typed<LstmGrad>(n, threads);
  return create_batch_major(n, threads, {.pair_inputs = {0, 4, 5, 10, 11}, .y_inputs = {7, 9}, .pair_outputs = {0, 4, 5}, .y_outputs = {}}, create_typed<LstmGrad>);
}

}  // namespace

std::span<const KernelDef> lstm_kernels() {
  static const KernelDef defs[] = {
      {.op = "LSTM", .name = "onednn", .types = kFloats | kHalves, .create = create_lstm},
      {.domain = "ai.engine", .op = "LstmTraining", .name = "onednn", .types = kFloats | kHalves, .create = create_lstm},
      {.domain = "ai.engine", .op = "LstmGrad", .name = "onednn", .types = kFloats | kHalves, .create = create_grad},
  };
  return defs;
}

}  // namespace eng::cpu

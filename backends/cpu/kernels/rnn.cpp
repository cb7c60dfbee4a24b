// RNN and ai.engine::RnnGrad; formulas in graph/ops/rnn.cpp, the plan in backends/cpu/recurrent.h.
#include "backends/cpu/half_adapter.h"
#include "backends/cpu/recurrent.h"

namespace eng::cpu {
namespace {

const std::vector<Activation::Kind> kDefaults = {Activation::kTanh};

template <class T>
class Rnn : public Kernel {
 public:
  Rnn(const NodeView& n, int threads) : s_(n, kDefaults), ranges_(cut_batch(s_.batch, threads)) {
    const int64_t h = s_.hidden;
    project_ = Gemm<T>::create(product(s_.cells(), h, s_.input, matrix(s_.input), matrix(s_.input, true), h, false, true), threads);
    step_ = StepProducts<T>(ranges_, [&](int64_t m) { return product(m, h, h, matrix(h), matrix(h), h, true); });
    bias_ = plan_.add<T>(h);
    r_ = plan_.add<T>(h * h);
    h_ = plan_.add<T>(s_.batch * h);
    sums_ = plan_.add<T>(s_.cells() * h);
    scratch_ = plan_.add<char>(static_cast<int64_t>(std::max(project_->workspace(), step_.workspace() * ranges_.size())));
  }
  size_t workspace() const override { return plan_.bytes(); }
  void run(const RunContext& c) override {
    for (int64_t d = 0; d < s_.directions; ++d) run_direction(c, d);
  }

 private:
  void run_direction(const RunContext& c, int64_t d) {
    const int64_t h = s_.hidden, states = s_.batch * h;
    T *bias = part<T>(c.workspace, bias_), *r = part<T>(c.workspace, r_), *state = part<T>(c.workspace, h_), *sums = part<T>(c.workspace, sums_);
    void* scratch = part<char>(c.workspace, scratch_);
    const T* b = s_.in<T>(c, 3) ? s_.in<T>(c, 3) + 2 * d * h : nullptr;
    for (int64_t j = 0; j < h; ++j) bias[j] = b ? b[j] + b[h + j] : T(0);
    transpose(s_.in<T>(c, 2) + d * h * h, r, h, h);
    if (s_.has_in(5)) std::copy_n(s_.in<T>(c, 5) + d * states, states, state);
    else std::fill_n(state, states, T(0));
    project_->run(s_.in<T>(c, 0), s_.in<T>(c, 1) + d * h * s_.input, bias, sums, scratch);
#pragma omp parallel for schedule(static, 1)
    for (size_t k = 0; k < ranges_.size(); ++k)
      for (int64_t i = 0; i < s_.steps; ++i) {
        const int64_t t = s_.time(d, i), b = ranges_[k].begin;
        step_[k].run(state + b * h, r, nullptr, sums + t * states + b * h, static_cast<char*>(scratch) + k * step_.workspace());
        step(c, d, t, ranges_[k], sums + t * states, state);
      }
    if (s_.has_out(1)) std::copy_n(state, states, s_.out<T>(c, 1) + d * states);
  }

  void step(const RunContext& c, int64_t d, int64_t t, SampleRange range, const T* sums, T* state) const {
    const int64_t h = s_.hidden;
    const Clipped<T> f = s_.activation<T>(d, 0);
    for (int64_t b = range.begin; b < range.end; ++b) {
      T* y = s_.has_out(0) ? s_.out<T>(c, 0) + ((t * s_.directions + d) * s_.batch + b) * h : nullptr;
      const bool valid = is_valid(s_.in<int32_t>(c, 4), b, t);
      for (int64_t j = 0; j < h; ++j) {
        if (valid) state[b * h + j] = f(sums[b * h + j]);
        if (y) y[j] = valid ? state[b * h + j] : T(0);
      }
    }
  }

  Recurrent s_;
  std::vector<SampleRange> ranges_;
  std::unique_ptr<Gemm<T>> project_;
  StepProducts<T> step_;
  WorkspacePlan plan_;
  size_t bias_, r_, h_, sums_, scratch_;
};

// X, W, R, lens, h0, Y, dY, dY_h -> dX, dW, dR, dB, dh0
template <class T>
class RnnGrad : public Kernel {
 public:
  RnnGrad(const NodeView& n, int threads) : s_(n, kDefaults), ranges_(cut_batch(s_.batch, threads)) {
    const int64_t h = s_.hidden, cells = s_.cells();
    size_t scratch = 0;
    auto make = [&](GemmSpec spec) {
      auto g = Gemm<T>::create(spec, threads);
      scratch = std::max(scratch, g->workspace());
      return g;
    };
    step_ = StepProducts<T>(ranges_, [&](int64_t m) { return product(m, h, h, matrix(h), matrix(h), h, true); });
    scratch = step_.workspace() * ranges_.size();
    if (n.out(0).present()) dx_[0] = make(product(cells, s_.input, h, matrix(h), matrix(s_.input), s_.input));
    if (n.out(0).present() && s_.directions > 1) dx_[1] = make(product(cells, s_.input, h, matrix(h), matrix(s_.input), s_.input, true));
    if (n.out(1).present()) dw_ = make(product(h, s_.input, cells, matrix(h, true), matrix(s_.input), s_.input));
    if (n.out(2).present()) dr_ = make(product(h, h, cells, matrix(h, true), matrix(h), h));
    dg_ = plan_.add<T>(cells * h);
    dh_ = plan_.add<T>(s_.batch * h);
    before_ = plan_.add<T>(cells * h);
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
  void run_steps(const RunContext& c, int64_t d) {
    const int64_t h = s_.hidden, states = s_.batch * h;
    T *dg = part<T>(c.workspace, dg_), *dh = part<T>(c.workspace, dh_);
    if (s_.has_in(7)) std::copy_n(s_.in<T>(c, 7) + d * states, states, dh);
    else std::fill_n(dh, states, T(0));
#pragma omp parallel for schedule(static, 1)
    for (size_t k = 0; k < ranges_.size(); ++k)
      for (int64_t i = s_.steps; i-- > 0;) {
        const int64_t t = s_.time(d, i), b = ranges_[k].begin;
        step(c, d, t, ranges_[k], dg + t * states, dh);
        step_[k].run(dg + t * states + b * h, s_.in<T>(c, 2) + d * h * h, nullptr, dh + b * h, part<char>(c.workspace, scratch_) + k * step_.workspace());
      }
    if (s_.has_out(4)) std::copy_n(dh, states, s_.out<T>(c, 4) + d * states);
  }

  void step(const RunContext& c, int64_t d, int64_t t, SampleRange range, T* dg, T* dh) const {
    const int64_t h = s_.hidden;
    const Clipped<T> f = s_.activation<T>(d, 0);
    for (int64_t b = range.begin; b < range.end; ++b) {
      const bool valid = is_valid(s_.in<int32_t>(c, 3), b, t);
      const int64_t row = ((t * s_.directions + d) * s_.batch + b) * h;
      for (int64_t j = 0; j < h; ++j) {
        const T whole = dh[b * h + j] + (valid && s_.has_in(6) ? s_.in<T>(c, 6)[row + j] : T(0));
        dg[b * h + j] = valid ? whole * f.slope_at(s_.in<T>(c, 5)[row + j]) : T(0);
        if (valid) dh[b * h + j] = T(0);
      }
    }
  }

  void run_sums(const RunContext& c, int64_t d) {
    const int64_t h = s_.hidden;
    const T* dg = part<T>(c.workspace, dg_);
    void* scratch = part<char>(c.workspace, scratch_);
    if (s_.has_out(0)) dx_[d]->run(dg, s_.in<T>(c, 1) + d * h * s_.input, nullptr, s_.out<T>(c, 0), scratch);
    if (dw_) dw_->run(dg, s_.in<T>(c, 0), nullptr, s_.out<T>(c, 1) + d * h * s_.input, scratch);
    if (dr_) {
      T* before = part<T>(c.workspace, before_);
      previous_states(s_, d, s_.in<T>(c, 5), s_.in<T>(c, 4), s_.in<int32_t>(c, 3), before);
      dr_->run(dg, before, nullptr, s_.out<T>(c, 2) + d * h * h, scratch);
    }
    if (s_.has_out(3)) {
      T* db = s_.out<T>(c, 3) + 2 * d * h;
      column_sums(dg, s_.cells(), h, h, db);
      std::copy_n(db, h, db + h);
    }
  }

  Recurrent s_;
  std::vector<SampleRange> ranges_;
  StepProducts<T> step_;
  std::unique_ptr<Gemm<T>> dx_[2], dw_, dr_;
  WorkspacePlan plan_;
  size_t dg_, dh_, before_, scratch_;
};

template <template <class> class K>
std::unique_ptr<Kernel> create_typed(const NodeView& n, int threads) {
  if (has_half(n)) return create_widened(n, threads, create_typed<K>);
  if (n.in(0).dtype == EB_FLOAT64) return std::make_unique<K<double>>(n, threads);
  return std::make_unique<K<float>>(n, threads);
}
std::unique_ptr<Kernel> create_rnn(const NodeView& n, int threads) {
  if (n.attr_int("layout", 0) == 0) return create_typed<Rnn>(n, threads);
  return create_batch_major(n, threads, {.pair_inputs = {0, 5}, .y_inputs = {}, .pair_outputs = {1}, .y_outputs = {0}}, create_typed<Rnn>);
}
std::unique_ptr<Kernel> create_grad(const NodeView& n, int threads) {
  if (n.attr_int("layout", 0) == 0) return create_typed<RnnGrad>(n, threads);
  return create_batch_major(n, threads, {.pair_inputs = {0, 4, 7}, .y_inputs = {5, 6}, .pair_outputs = {0, 4}, .y_outputs = {}}, create_typed<RnnGrad>);
}

}  // namespace

std::span<const KernelDef> rnn_kernels() {
  static const KernelDef defs[] = {
      {.op = "RNN", .name = "onednn", .types = kFloats | kHalves, .create = create_rnn},
      {.domain = "ai.engine", .op = "RnnGrad", .name = "onednn", .types = kFloats | kHalves, .create = create_grad},
  };
  return defs;
}

}  // namespace eng::cpu

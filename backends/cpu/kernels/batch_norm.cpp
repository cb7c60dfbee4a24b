// BatchNormalization, BatchNormTraining, BatchNormGrad: own loops. Formulas: graph/ops/batch_norm.cpp.
// X is seen as rows x channels (channels-last, or no spatial axes) or batch x channels x area (row-major).
// Rows are cut into a fixed number of chunks, whatever the number of threads. A chunk goes through blocks of kBlock rows that
// stay in the cache: the block's mean, then its squared deviations, joined to the chunk's in double (Chan's formula), so that a mean far
// above the deviation costs no accuracy and X is read from memory once. Chunks are joined in order: same bits on every run.
#include <algorithm>
#include <cmath>
#include <limits>

#include "backends/cpu/kernel.h"

namespace eng::cpu {
namespace {

constexpr int64_t kBlock = 64, kChunks = 32;

struct Sizes {
  bool rows = true;             // rows x channels, else batch x channels x area
  int64_t batch = 1, channels = 1, area = 1;
  int64_t values() const { return batch * area; }
  explicit Sizes(const TensorView& x) {
    batch = x.dims[0];
    channels = x.rank() > 1 ? x.dims[1] : 1;
    for (size_t i = 2; i < x.dims.size(); ++i) area *= x.dims[i];
    rows = x.channels_last() || area == 1;
  }
  int64_t chunks() const { return std::clamp<int64_t>(values() / kBlock, 1, kChunks); }
  int64_t chunk_begin(int64_t i) const { return values() * i / chunks(); }
};

std::string can_run(const NodeView& n) {
  const int x = n.op() == "BatchNormGrad" ? 1 : 0;
  const TensorView& lead = n.in(x);
  if (!lead.row_major() && !lead.channels_last()) return "X is neither row-major nor channels-last";
  for (const TensorView* other : {&n.in(0), &n.out(0)})
    if (other->present() && other->rank() == lead.rank() && !(lead.channels_last() ? other->channels_last() : other->row_major())) return "operands lie differently";
  return "";
}

// Joins (count, mean, sum of squared deviations) of a part to a whole, channel by channel.
void join(int64_t channels, double count, double* mean, double* m2, double part_count, const double* part_mean, const double* part_m2) {
  if (part_count == 0) return;
  const double share = part_count / (count + part_count), weight = count * share;
  for (int64_t c = 0; c < channels; ++c) {
    const double d = part_mean[c] - mean[c];
    mean[c] += d * share;
    m2[c] += part_m2[c] + d * d * weight;
  }
}

// mean[c] and m2[c] of rows [begin, end); `sum` and `squares` are scratch, a value a channel.
template <class T>
void row_statistics(const T* x, int64_t channels, int64_t begin, int64_t end, double* mean, double* m2, T* sum, T* squares) {
  std::fill(mean, mean + channels, 0.0);
  std::fill(m2, m2 + channels, 0.0);
  for (int64_t r = begin; r < end; r += kBlock) {
    const int64_t stop = std::min(end, r + kBlock), count = stop - r;
    std::fill(sum, sum + channels, T(0));
    std::fill(squares, squares + channels, T(0));
    int64_t i = r;
    for (; i + 4 <= stop; i += 4) {
      const T *a = x + i * channels, *b = a + channels, *c = b + channels, *d = c + channels;
      for (int64_t k = 0; k < channels; ++k) sum[k] += (a[k] + b[k]) + (c[k] + d[k]);
    }
    for (; i < stop; ++i)
      for (int64_t k = 0; k < channels; ++k) sum[k] += x[i * channels + k];
    const T inverse = T(1) / static_cast<T>(count);
    for (int64_t k = 0; k < channels; ++k) sum[k] *= inverse;
    for (i = r; i + 4 <= stop; i += 4) {
      const T *a = x + i * channels, *b = a + channels, *c = b + channels, *d = c + channels;
      for (int64_t k = 0; k < channels; ++k) {
        const T da = a[k] - sum[k], db = b[k] - sum[k], dc = c[k] - sum[k], dd = d[k] - sum[k];
        squares[k] += (da * da + db * db) + (dc * dc + dd * dd);
      }
    }
    for (; i < stop; ++i)
      for (int64_t k = 0; k < channels; ++k) squares[k] += (x[i * channels + k] - sum[k]) * (x[i * channels + k] - sum[k]);
    const double before = static_cast<double>(r - begin), share = static_cast<double>(count) / (before + static_cast<double>(count)), weight = before * share;
    for (int64_t k = 0; k < channels; ++k) {
      const double d = static_cast<double>(sum[k]) - mean[k];
      mean[k] += d * share;
      m2[k] += static_cast<double>(squares[k]) + d * d * weight;
    }
  }
}

// The same for one channel of batch x channels x area.
template <class T>
void plane_statistics(const T* x, const Sizes& s, int64_t channel, double* mean, double* m2) {
  double count = 0;
  *mean = *m2 = 0;
  for (int64_t n = 0; n < s.batch; ++n) {
    const T* p = x + (n * s.channels + channel) * s.area;
    double sum = 0, squares = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < s.area; ++i) sum += static_cast<double>(p[i]);
    const double average = sum / static_cast<double>(s.area);
#pragma omp simd reduction(+ : squares)
    for (int64_t i = 0; i < s.area; ++i) squares += (static_cast<double>(p[i]) - average) * (static_cast<double>(p[i]) - average);
    join(1, count, mean, m2, static_cast<double>(s.area), &average, &squares);
    count += static_cast<double>(s.area);
  }
}

// y = (x - mean) * factor + shift, then the ReLU.
template <class T>
void normalise(const Sizes& s, const T* x, T* y, const T* mean, const T* factor, const T* shift, bool relu) {
  const T floor = relu ? T(0) : -std::numeric_limits<T>::infinity();
  if (s.rows) {
    const int64_t chunks = s.chunks();
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < chunks; ++i)
      for (int64_t r = s.chunk_begin(i); r < s.chunk_begin(i + 1); ++r) {
        const T* p = x + r * s.channels;
        T* q = y + r * s.channels;
#pragma omp simd
        for (int64_t c = 0; c < s.channels; ++c) {
          const T v = (p[c] - mean[c]) * factor[c] + shift[c];
          q[c] = v < floor ? floor : v;
        }
      }
    return;
  }
#pragma omp parallel for collapse(2) schedule(static)
  for (int64_t n = 0; n < s.batch; ++n)
    for (int64_t c = 0; c < s.channels; ++c) {
      const int64_t at = (n * s.channels + c) * s.area;
      const T m = mean[c], f = factor[c], b = shift[c];
      for (int64_t i = 0; i < s.area; ++i) {
        const T v = (x[at + i] - m) * f + b;
        y[at + i] = v < floor ? floor : v;
      }
    }
}

bool has_relu(const NodeView& n) { return n.attr_string("activation", "") == "Relu"; }
size_t aligned(size_t bytes) { return (bytes + 63) / 64 * 64; }

template <class T>
class Inference : public Kernel {
 public:
  Inference(const NodeView& n, int) : s_(n.in(0)), epsilon_(n.attr_float("epsilon", 1e-5)), relu_(has_relu(n)) {}
  size_t workspace() const override { return aligned(sizeof(T) * static_cast<size_t>(s_.channels)); }
  void run(const RunContext& c) override {
    T* factor = static_cast<T*>(c.workspace);
    for (int64_t i = 0; i < s_.channels; ++i)
      factor[i] = static_cast<T>(static_cast<double>(c.in<T>(1)[i]) / std::sqrt(static_cast<double>(c.in<T>(4)[i]) + epsilon_));
    normalise(s_, c.in<T>(0), c.out<T>(0), c.in<T>(3), factor, c.in<T>(2), relu_);
  }

 private:
  Sizes s_;
  double epsilon_;
  bool relu_;
};

template <class T>
class Training : public Kernel {
 public:
  Training(const NodeView& n, int) : s_(n.in(0)), epsilon_(n.attr_float("epsilon", 1e-5)), momentum_(n.attr_float("momentum", 0.9)), relu_(has_relu(n)),
        outputs_(n.output_count()) {}
  // Per chunk: mean and m2 in double, two scratch rows; then the whole's mean, factor and inverse deviation.
  size_t workspace() const override { return static_cast<size_t>(s_.chunks() + 1) * slice(); }
  void run(const RunContext& c) override {
    const T* x = c.in<T>(0);
    char* space = static_cast<char*>(c.workspace);
    double *mean = doubles(space, s_.chunks()), *m2 = mean + s_.channels;
    statistics(x, space, mean, m2);
    const double count = static_cast<double>(s_.values());
    T *mean_t = scratch(space, s_.chunks()), *factor = mean_t + s_.channels;
    for (int64_t i = 0; i < s_.channels; ++i) {
      const double variance = count > 0 ? m2[i] / count : 0, inverse = 1 / std::sqrt(variance + epsilon_);
      const double keep = count > 0 ? momentum_ : 1;
      if (wants(c, 1)) c.out<T>(1)[i] = static_cast<T>(static_cast<double>(c.in<T>(3)[i]) * keep + mean[i] * (1 - keep));
      if (wants(c, 2)) c.out<T>(2)[i] = static_cast<T>(static_cast<double>(c.in<T>(4)[i]) * keep + variance * (1 - keep));
      mean_t[i] = static_cast<T>(mean[i]);
      factor[i] = c.in<T>(1)[i] * static_cast<T>(inverse);
      if (wants(c, 3)) c.out<T>(3)[i] = mean_t[i];
      if (wants(c, 4)) c.out<T>(4)[i] = static_cast<T>(inverse);
    }
    if (c.outputs[0]) normalise(s_, x, c.out<T>(0), mean_t, factor, c.in<T>(2), relu_);
  }

 private:
  bool wants(const RunContext& c, int i) const { return i < outputs_ && c.outputs[i]; }
  size_t slice() const { return aligned(static_cast<size_t>(s_.channels) * (2 * sizeof(double) + 2 * sizeof(T))); }
  double* doubles(char* space, int64_t i) const { return reinterpret_cast<double*>(space + static_cast<size_t>(i) * slice()); }
  T* scratch(char* space, int64_t i) const { return reinterpret_cast<T*>(doubles(space, i) + 2 * s_.channels); }

  void statistics(const T* x, char* space, double* mean, double* m2) {
    if (!s_.rows) {
#pragma omp parallel for schedule(static)
      for (int64_t i = 0; i < s_.channels; ++i) plane_statistics(x, s_, i, mean + i, m2 + i);
      return;
    }
    const int64_t chunks = s_.chunks(), width = s_.channels;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < chunks; ++i) {
      double* part = doubles(space, i);
      T* row = scratch(space, i);
      row_statistics(x, width, s_.chunk_begin(i), s_.chunk_begin(i + 1), part, part + width, row, row + width);
    }
    std::fill(mean, mean + width, 0.0);
    std::fill(m2, m2 + width, 0.0);
    for (int64_t i = 0; i < chunks; ++i) {
      const double* part = doubles(space, i);
      join(width, static_cast<double>(s_.chunk_begin(i)), mean, m2, static_cast<double>(s_.chunk_begin(i + 1) - s_.chunk_begin(i)), part, part + width);
    }
  }

  Sizes s_;
  double epsilon_, momentum_;
  bool relu_;
  int outputs_;
};

template <class T>
class Gradient : public Kernel {
 public:
  Gradient(const NodeView& n, int) : s_(n.in(1)), relu_(has_relu(n)), frozen_(n.attr_int("frozen", 0) != 0), outputs_(n.output_count()) {}
  size_t workspace() const override { return static_cast<size_t>(s_.chunks() + 1) * slice(); }
  void run(const RunContext& c) override {
    char* space = static_cast<char*>(c.workspace);
    double *sum = doubles(space, s_.chunks()), *product = sum + s_.channels;
    T *factor = scratch(space, s_.chunks()), *k1 = factor + s_.channels, *k2 = k1 + s_.channels;
    const T *scale = c.in<T>(2), *inverse = c.in<T>(5);
    for (int64_t i = 0; i < s_.channels; ++i) factor[i] = scale[i] * inverse[i];
    const bool sums = !frozen_ || wants(c, 1) || wants(c, 2);
    if (sums) reduce(c, space, factor, sum, product);
    const double count = static_cast<double>(std::max<int64_t>(s_.values(), 1));
    for (int64_t i = 0; i < s_.channels; ++i) {
      const double inv = static_cast<double>(inverse[i]);
      if (wants(c, 1)) c.out<T>(1)[i] = static_cast<T>(product[i] * inv);
      if (wants(c, 2)) c.out<T>(2)[i] = static_cast<T>(sum[i]);
      k1[i] = frozen_ ? T(0) : static_cast<T>(sum[i] / count);
      k2[i] = frozen_ ? T(0) : static_cast<T>(product[i] * inv * inv / count);
    }
    if (wants(c, 0)) apply(c, factor, k1, k2);
  }

 private:
  bool wants(const RunContext& c, int i) const { return i < outputs_ && c.outputs[i]; }
  size_t slice() const { return aligned(static_cast<size_t>(s_.channels) * (2 * sizeof(double) + 3 * sizeof(T))); }
  double* doubles(char* space, int64_t i) const { return reinterpret_cast<double*>(space + static_cast<size_t>(i) * slice()); }
  T* scratch(char* space, int64_t i) const { return reinterpret_cast<T*>(doubles(space, i) + 2 * s_.channels); }

  // sum of g and of g * (x - mean), a channel.
  void reduce(const RunContext& c, char* space, const T* factor, double* sum, double* product) {
    if (!s_.rows) return reduce_planes(c, factor, sum, product);
    const int64_t chunks = s_.chunks(), width = s_.channels;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < chunks; ++i) {
      double* part = doubles(space, i);
      T* row = scratch(space, i);
      std::fill(part, part + 2 * width, 0.0);
      for (int64_t r = s_.chunk_begin(i); r < s_.chunk_begin(i + 1); r += kBlock) {
        if (relu_) add_rows<true>(c, factor, r, std::min(r + kBlock, s_.chunk_begin(i + 1)), row, row + width);
        else add_rows<false>(c, factor, r, std::min(r + kBlock, s_.chunk_begin(i + 1)), row, row + width);
        for (int64_t k = 0; k < 2 * width; ++k) part[k] += static_cast<double>(row[k]);
      }
    }
    std::fill(sum, sum + 2 * width, 0.0);  // product follows sum
    for (int64_t i = 0; i < chunks; ++i)
      for (int64_t k = 0; k < 2 * width; ++k) sum[k] += doubles(space, i)[k];
  }
  template <bool kRelu>
  void add_rows(const RunContext& c, const T* factor, int64_t begin, int64_t end, T* sum, T* product) const {
    const T *mean = c.in<T>(4), *shift = c.in<T>(3);
    std::fill(sum, sum + s_.channels, T(0));
    std::fill(product, product + s_.channels, T(0));
    int64_t r = begin;
    for (; r + 2 <= end; r += 2) {
      const T *g = c.in<T>(0) + r * s_.channels, *x = c.in<T>(1) + r * s_.channels, *g2 = g + s_.channels, *x2 = x + s_.channels;
#pragma omp simd
      for (int64_t k = 0; k < s_.channels; ++k) {
        const T d = x[k] - mean[k], d2 = x2[k] - mean[k];
        const T a = !kRelu || d * factor[k] + shift[k] > 0 ? g[k] : T(0), b = !kRelu || d2 * factor[k] + shift[k] > 0 ? g2[k] : T(0);
        sum[k] += a + b;
        product[k] += a * d + b * d2;
      }
    }
    for (; r < end; ++r) {
      const T *g = c.in<T>(0) + r * s_.channels, *x = c.in<T>(1) + r * s_.channels;
#pragma omp simd
      for (int64_t k = 0; k < s_.channels; ++k) {
        const T d = x[k] - mean[k], a = !kRelu || d * factor[k] + shift[k] > 0 ? g[k] : T(0);
        sum[k] += a;
        product[k] += a * d;
      }
    }
  }
  void reduce_planes(const RunContext& c, const T* factor, double* sum, double* product) {
#pragma omp parallel for schedule(static)
    for (int64_t ch = 0; ch < s_.channels; ++ch) {
      const T m = c.in<T>(4)[ch], f = factor[ch], b = c.in<T>(3)[ch], off = relu_ ? T(0) : -std::numeric_limits<T>::infinity();
      double total = 0, weighted = 0;
      for (int64_t n = 0; n < s_.batch; ++n) {
        const T *g = c.in<T>(0) + (n * s_.channels + ch) * s_.area, *x = c.in<T>(1) + (n * s_.channels + ch) * s_.area;
#pragma omp simd reduction(+ : total, weighted)
        for (int64_t i = 0; i < s_.area; ++i) {
          const T d = x[i] - m, a = d * f + b > off ? g[i] : T(0);
          total += static_cast<double>(a);
          weighted += static_cast<double>(a) * static_cast<double>(d);
        }
      }
      sum[ch] = total;
      product[ch] = weighted;
    }
  }

  // dX = factor * (g - k1 - (x - mean) * k2)
  void apply(const RunContext& c, const T* factor, const T* k1, const T* k2) {
    const T *mean = c.in<T>(4), *shift = c.in<T>(3), off = relu_ ? T(0) : -std::numeric_limits<T>::infinity();
    if (s_.rows) {
      const int64_t chunks = s_.chunks();
#pragma omp parallel for schedule(static)
      for (int64_t i = 0; i < chunks; ++i)
        for (int64_t r = s_.chunk_begin(i); r < s_.chunk_begin(i + 1); ++r) {
          const T *g = c.in<T>(0) + r * s_.channels, *x = c.in<T>(1) + r * s_.channels;
          T* dx = c.out<T>(0) + r * s_.channels;
#pragma omp simd
          for (int64_t k = 0; k < s_.channels; ++k) {
            const T d = x[k] - mean[k], a = d * factor[k] + shift[k] > off ? g[k] : T(0);
            dx[k] = factor[k] * (a - k1[k] - d * k2[k]);
          }
        }
      return;
    }
#pragma omp parallel for collapse(2) schedule(static)
    for (int64_t n = 0; n < s_.batch; ++n)
      for (int64_t ch = 0; ch < s_.channels; ++ch) {
        const int64_t at = (n * s_.channels + ch) * s_.area;
        const T *g = c.in<T>(0) + at, *x = c.in<T>(1) + at, m = mean[ch], f = factor[ch], b = shift[ch], a1 = k1[ch], a2 = k2[ch];
        T* dx = c.out<T>(0) + at;
#pragma omp simd
        for (int64_t i = 0; i < s_.area; ++i) {
          const T d = x[i] - m, a = d * f + b > off ? g[i] : T(0);
          dx[i] = f * (a - a1 - d * a2);
        }
      }
  }

  Sizes s_;
  bool relu_, frozen_;
  int outputs_;
};

template <template <class> class K>
std::unique_ptr<Kernel> make(const NodeView& n, int threads) {
  if (n.in(0).dtype == EB_FLOAT64) return std::make_unique<K<double>>(n, threads);
  return std::make_unique<K<float>>(n, threads);
}

}  // namespace

std::span<const KernelDef> batch_norm_kernels() {
  static const std::vector<Alias> running = {{EB_ALIAS_IN_PLACE, 1, 3}, {EB_ALIAS_IN_PLACE, 2, 4}};
  static const KernelDef defs[] = {
      {.op = "BatchNormalization", .name = "inference", .types = kFloats, .aliases = {{EB_ALIAS_IN_PLACE, 0, 0}},
       .can_run = [](const NodeView& n) { return n.attr_int("training_mode", 0) ? std::string("training_mode is 1") : can_run(n); }, .create = make<Inference>},
      {.op = "BatchNormalization", .name = "training", .types = kFloats, .aliases = running,
       .can_run = [](const NodeView& n) { return n.attr_int("training_mode", 0) ? can_run(n) : std::string("training_mode is 0"); }, .create = make<Training>},
      {.domain = "ai.engine", .op = "BatchNormTraining", .name = "rows", .types = kFloats, .aliases = running, .can_run = can_run, .create = make<Training>},
      {.domain = "ai.engine", .op = "BatchNormGrad", .name = "rows", .types = kFloats, .aliases = {{EB_ALIAS_IN_PLACE, 0, 0}}, .can_run = can_run, .create = make<Gradient>},
  };
  return defs;
}

}  // namespace eng::cpu

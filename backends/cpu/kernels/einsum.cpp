// Einsum and ai.engine::EinsumGrad: every letter (and each axis of the ellipsis) is a loop; a tensor's stride along a letter is the sum
// of those of the axes that carry it, 0 where it has none or is broadcast. Loops over letters of the target are split over threads;
// the others are summed inside, in double for float32.
#include <algorithm>
#include <array>
#include <map>
#include <type_traits>

#include "backends/cpu/half_adapter.h"
#include "backends/cpu/kernel.h"

namespace eng::cpu {
namespace {

struct Terms {
  std::vector<std::string> operands;
  std::string output;
};

Terms parse(const NodeView& n) {
  std::string s;
  for (char ch : n.attr_string("equation", ""))
    if (ch != ' ' && ch != '\t' && ch != '\n') s += ch;
  Terms t;
  const size_t arrow = s.find("->");
  const std::string left = s.substr(0, arrow);
  for (size_t start = 0, comma; start != std::string::npos; start = comma == std::string::npos ? comma : comma + 1) {
    comma = left.find(',', start);
    t.operands.push_back(left.substr(start, comma == std::string::npos ? comma : comma - start));
  }
  if (arrow != std::string::npos) {
    t.output = s.substr(arrow + 2);
    return t;
  }
  std::map<char, int> uses;
  for (char ch : left) if (ch != ',') ++uses[ch];
  if (uses['.'] > 0) t.output = "...";
  for (auto [ch, count] : uses)
    if (ch != '.' && count == 1) t.output += ch;
  return t;
}

constexpr int kDots = 256;  // labels from here on are axes of the ellipsis, counted from its end

// The label of each axis of a tensor.
std::vector<int> labels(const std::string& term, size_t rank) {
  const size_t dots = term.find("..."), letters = term.size() - (dots == std::string::npos ? 0 : 3);
  std::vector<int> out;
  for (size_t i = 0; i < term.size(); ++i) {
    if (i != dots) {
      out.push_back(static_cast<unsigned char>(term[i]));
      continue;
    }
    for (size_t k = rank - letters; k-- > 0;) out.push_back(kDots + static_cast<int>(k));
    i += 2;
  }
  return out;
}

struct LoopPlan {
  std::vector<int64_t> extents;                // target letters first, then summed ones
  std::vector<std::vector<int64_t>> strides;   // per source, then the target
  int64_t outer = 1, inner = 1;
  size_t kept = 0;                             // target letters
};

LoopPlan plan(const std::vector<std::pair<std::vector<int>, const TensorView*>>& sources, const std::vector<int>& target_labels, const TensorView& target) {
  std::map<int, int64_t> extent;
  auto all = sources;
  all.emplace_back(target_labels, &target);
  for (const auto& [names, t] : all)
    for (size_t d = 0; d < names.size(); ++d) extent[names[d]] = std::max(extent.count(names[d]) ? extent[names[d]] : int64_t{0}, t->dims[d]);
  for (const auto& [names, t] : all)
    for (size_t d = 0; d < names.size(); ++d) if (t->dims[d] == 0) extent[names[d]] = 0;
  auto stride_of = [](const std::vector<int>& names, const TensorView& t, int label) {
    int64_t stride = 0;
    for (size_t d = 0; d < names.size(); ++d)
      if (names[d] == label && t.dims[d] != 1) stride += t.strides[d];
    return stride;
  };
  std::vector<int> order;
  for (const auto& [label, n] : extent)
    if (stride_of(target_labels, target, label)) order.push_back(label);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return stride_of(target_labels, target, a) > stride_of(target_labels, target, b); });
  LoopPlan p;
  p.kept = order.size();
  for (const auto& [label, n] : extent)
    if (!stride_of(target_labels, target, label)) order.push_back(label);
  p.strides.resize(all.size());
  for (size_t k = 0; k < order.size(); ++k) {
    p.extents.push_back(extent[order[k]]);
    (k < p.kept ? p.outer : p.inner) *= extent[order[k]];
    for (size_t i = 0; i < all.size(); ++i) p.strides[i].push_back(stride_of(all[i].first, *all[i].second, order[k]));
  }
  return p;
}

template <class T>
class Einsum : public Kernel {
 public:
  // `pointers`: the inputs that are multiplied, in the plan's order.
  Einsum(LoopPlan p, std::vector<int> pointers, int64_t count) : p_(std::move(p)), pointers_(std::move(pointers)), count_(count) {}
  void run(const RunContext& c) override {
    using Sum = std::conditional_t<std::is_floating_point_v<T>, double, T>;
    const size_t sources = pointers_.size();
    if (p_.outer == 0) std::fill_n(c.out<T>(0), count_, T(0));
#pragma omp parallel for schedule(static) if (p_.outer * p_.inner > 16384)
    for (int64_t i = 0; i < p_.outer; ++i) {
      std::array<int64_t, kMaxSources + 1> base{};
      offsets(i, 0, p_.kept, base);
      Sum sum = 0;
      for (int64_t k = 0; k < p_.inner; ++k) {
        std::array<int64_t, kMaxSources + 1> at = base;
        offsets(k, p_.kept, p_.extents.size(), at);
        Sum product = 1;
        for (size_t s = 0; s < sources; ++s) product *= static_cast<Sum>(c.in<T>(pointers_[s])[at[s]]);
        sum += product;
      }
      c.out<T>(0)[base[sources]] = static_cast<T>(sum);
    }
  }
  static constexpr size_t kMaxSources = 16;

 private:
  void offsets(int64_t flat, size_t begin, size_t end, std::array<int64_t, kMaxSources + 1>& at) const {
    for (size_t d = end; d-- > begin;) {
      const int64_t index = flat % p_.extents[d];
      flat /= p_.extents[d];
      for (size_t s = 0; s < p_.strides.size(); ++s) at[s] += index * p_.strides[s][d];
    }
  }
  LoopPlan p_;
  std::vector<int> pointers_;
  int64_t count_;
};

std::unique_ptr<Kernel> create(const NodeView& n, int threads) {
  if (has_half(n)) return create_widened(n, threads, create);
  const bool backward = n.op() == "EinsumGrad";
  const Terms t = parse(n);
  const int target_operand = static_cast<int>(n.attr_int("operand", 0));
  std::vector<std::pair<std::vector<int>, const TensorView*>> sources;
  std::vector<int> pointers;
  if (backward) {
    sources.emplace_back(labels(t.output, n.in(0).dims.size()), &n.in(0));
    pointers.push_back(0);
  }
  std::vector<int> target = backward ? std::vector<int>() : labels(t.output, n.out(0).dims.size());
  for (size_t i = 0; i < t.operands.size(); ++i) {
    const int at = static_cast<int>(i) + (backward ? 1 : 0);
    const std::vector<int> names = labels(t.operands[i], n.in(at).dims.size());
    if (backward && static_cast<int>(i) == target_operand) {
      target = names;
      continue;
    }
    sources.emplace_back(names, &n.in(at));
    pointers.push_back(at);
  }
  LoopPlan p = plan(sources, target, n.out(0));
  const int64_t count = n.out(0).count();
  switch (n.in(0).dtype) {
    case EB_FLOAT32: return std::make_unique<Einsum<float>>(std::move(p), pointers, count);
    case EB_FLOAT64: return std::make_unique<Einsum<double>>(std::move(p), pointers, count);
    case EB_INT32: return std::make_unique<Einsum<int32_t>>(std::move(p), pointers, count);
    default: return std::make_unique<Einsum<int64_t>>(std::move(p), pointers, count);
  }
}

std::string few_operands(const NodeView& n) {
  if (n.input_count() > static_cast<int>(Einsum<float>::kMaxSources)) return "more than 16 operands";
  return require_row_major(n);
}

// A diagonal's gradient leaves the elements beside it: the target must be cleared first.
class Cleared : public Kernel {
 public:
  Cleared(std::unique_ptr<Kernel> inner, size_t bytes) : inner_(std::move(inner)), bytes_(bytes) {}
  size_t workspace() const override { return inner_->workspace(); }
  void run(const RunContext& c) override {
    std::fill_n(c.out<char>(0), bytes_, char(0));
    inner_->run(c);
  }

 private:
  std::unique_ptr<Kernel> inner_;
  size_t bytes_;
};

}  // namespace

std::span<const KernelDef> einsum_kernels() {
  static const KernelDef defs[] = {
      {.op = "Einsum", .name = "loops", .types = kFloats | kHalves | type_bit(EB_INT32) | type_bit(EB_INT64), .can_run = few_operands, .create = create},
      {.domain = "ai.engine", .op = "EinsumGrad", .name = "loops", .types = kFloats | kHalves, .can_run = few_operands,
       .create = [](const NodeView& n, int threads) -> std::unique_ptr<Kernel> {
         return std::make_unique<Cleared>(create(n, threads), static_cast<size_t>(n.out(0).bytes()));
       }},
  };
  return defs;
}

}  // namespace eng::cpu

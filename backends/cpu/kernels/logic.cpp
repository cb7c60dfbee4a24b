// Truth values, bits, comparisons and choice: And, Or, Xor, Not, Bitwise*, BitShift, Equal, Greater, Less and their -OrEqual,
// IsNaN, IsInf, Where. A functor each; the loops are elementwise.h's. Where moves bytes, so it takes every type of 1, 2, 4 or 8 bytes.
#include <cmath>

#include "backends/cpu/elementwise.h"
#include "backends/cpu/half_adapter.h"

namespace eng::cpu {
namespace {

struct And { template <class T> T operator()(T a, T b) const { return static_cast<T>(a & b); } };
struct Or { template <class T> T operator()(T a, T b) const { return static_cast<T>(a | b); } };
struct Xor { template <class T> T operator()(T a, T b) const { return static_cast<T>(a ^ b); } };
struct Invert { template <class T> T operator()(T a) const { return static_cast<T>(~a); } };
struct Not { bool operator()(bool a) const { return !a; } };
struct Shift {
  bool left = false;
  template <class T> T operator()(T a, T b) const {
    using U = std::make_unsigned_t<T>;
    constexpr unsigned width = sizeof(T) * 8;
    const auto by = static_cast<U>(b);
    if (left) return by >= width ? T(0) : static_cast<T>(static_cast<uint64_t>(a) << by);
    if (by >= width) return a < 0 ? static_cast<T>(-1) : T(0);
    return static_cast<T>(a >> by);
  }
};
struct Equal { template <class T> bool operator()(T a, T b) const { return a == b; } };
struct Greater { template <class T> bool operator()(T a, T b) const { return a > b; } };
struct Less { template <class T> bool operator()(T a, T b) const { return a < b; } };
struct GreaterOrEqual { template <class T> bool operator()(T a, T b) const { return a >= b; } };
struct LessOrEqual { template <class T> bool operator()(T a, T b) const { return a <= b; } };
struct IsNan { template <class T> bool operator()(T a) const { return a != a; } };
struct IsInf {
  bool positive = true, negative = true;
  template <class T> bool operator()(T a) const { return std::fabs(a) > std::numeric_limits<T>::max() && (a > 0 ? positive : negative); }
};
struct Choose { template <class T> T operator()(bool c, T a, T b) const { return c ? a : b; } };

template <class Op>
std::unique_ptr<Kernel> create_logic(const NodeView& n, int) { return std::make_unique<BinaryKernel<Op, bool>>(n, Op{}); }

std::unique_ptr<Kernel> create_not(const NodeView& n, int) { return std::make_unique<UnaryKernel<Not, bool>>(n, Not{}, 1); }

template <class Op>
std::unique_ptr<Kernel> create_bits(const NodeView& n, int) {
  Op op{};
  if constexpr (std::is_same_v<Op, Shift>) op.left = n.attr_string("direction", "") == "LEFT";
  std::unique_ptr<Kernel> k;
  dispatch_ints(n.in(0).dtype, [&](auto t) { k = std::make_unique<BinaryKernel<Op, decltype(t)>>(n, op); });
  return k;
}

std::unique_ptr<Kernel> create_invert(const NodeView& n, int) {
  std::unique_ptr<Kernel> k;
  dispatch_ints(n.in(0).dtype, [&](auto t) { k = std::make_unique<UnaryKernel<Invert, decltype(t)>>(n, Invert{}, 1); });
  return k;
}

template <class Op>
std::unique_ptr<Kernel> create_compare(const NodeView& n, int threads) {
  if (has_half(n)) return create_widened(n, threads, create_compare<Op>);
  std::unique_ptr<Kernel> k;
  auto make = [&](auto t) { k = std::make_unique<BinaryKernel<Op, decltype(t), decltype(t), bool>>(n, Op{}); };
  if (!dispatch_numbers(n.in(0).dtype, make)) dispatch<bool>(n.in(0).dtype, make);
  return k;
}

std::unique_ptr<Kernel> create_is_nan(const NodeView& n, int threads) {
  if (has_half(n)) return create_widened(n, threads, create_is_nan);
  std::unique_ptr<Kernel> k;
  dispatch_floats(n.in(0).dtype, [&](auto t) { k = std::make_unique<UnaryKernel<IsNan, decltype(t), bool>>(n, IsNan{}, 1); });
  return k;
}

std::unique_ptr<Kernel> create_is_inf(const NodeView& n, int threads) {
  if (has_half(n)) return create_widened(n, threads, create_is_inf);
  const IsInf op{n.attr_int("detect_positive", 1) != 0, n.attr_int("detect_negative", 1) != 0};
  std::unique_ptr<Kernel> k;
  dispatch_floats(n.in(0).dtype, [&](auto t) { k = std::make_unique<UnaryKernel<IsInf, decltype(t), bool>>(n, op, 1); });
  return k;
}

std::unique_ptr<Kernel> create_where(const NodeView& n, int) {
  switch (eb::size_of(n.out(0).dtype)) {
    case 1: return std::make_unique<TernaryKernel<Choose, bool, uint8_t, uint8_t, uint8_t>>(n, Choose{});
    case 2: return std::make_unique<TernaryKernel<Choose, bool, uint16_t, uint16_t, uint16_t>>(n, Choose{});
    case 4: return std::make_unique<TernaryKernel<Choose, bool, uint32_t, uint32_t, uint32_t>>(n, Choose{});
    case 8: return std::make_unique<TernaryKernel<Choose, bool, uint64_t, uint64_t, uint64_t>>(n, Choose{});
    default: return nullptr;
  }
}

KernelDef def(const char* op, uint64_t types, CreateFn create, std::vector<Alias> aliases = {}) {
  return {.op = op, .types = types, .aliases = std::move(aliases), .can_run = any_layout, .create = create};
}

}  // namespace

std::span<const KernelDef> logic_kernels() {
  constexpr uint64_t truth = type_bit(EB_BOOL), numbers = kFloats | kInts | kHalves;
  const std::vector<Alias> either = {{EB_ALIAS_IN_PLACE, 0, 0}, {EB_ALIAS_IN_PLACE, 0, 1}};
  static const std::vector<KernelDef> defs = {
      def("And", truth, create_logic<And>, either),
      def("Or", truth, create_logic<Or>, either),
      def("Xor", truth, create_logic<Xor>, either),
      def("Not", truth, create_not, {{EB_ALIAS_IN_PLACE, 0, 0}}),
      def("BitwiseAnd", kInts, create_bits<And>, either),
      def("BitwiseOr", kInts, create_bits<Or>, either),
      def("BitwiseXor", kInts, create_bits<Xor>, either),
      def("BitwiseNot", kInts, create_invert, {{EB_ALIAS_IN_PLACE, 0, 0}}),
      def("BitShift", kInts, create_bits<Shift>, either),
      def("Equal", numbers | truth, create_compare<Equal>),
      def("Greater", numbers, create_compare<Greater>),
      def("Less", numbers, create_compare<Less>),
      def("GreaterOrEqual", numbers, create_compare<GreaterOrEqual>),
      def("LessOrEqual", numbers, create_compare<LessOrEqual>),
      def("IsNaN", kFloats | kHalves, create_is_nan),
      def("IsInf", kFloats | kHalves, create_is_inf),
      def("Where", truth, create_where, {{EB_ALIAS_IN_PLACE, 0, 1}, {EB_ALIAS_IN_PLACE, 0, 2}}),
  };
  return defs;
}

}  // namespace eng::cpu

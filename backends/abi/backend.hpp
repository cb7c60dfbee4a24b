// C++ views of the ABI's structs and the guard that keeps exceptions inside a backend. For plugin authors; header only.
#pragma once

#include <cstddef>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "backends/abi/backend_abi.h"

namespace eb {

inline std::string_view view(const eb_string& s) { return s.data ? std::string_view(s.data, s.length) : std::string_view(); }
inline eb_string str(std::string_view s) { return {s.data(), s.size()}; }

inline int32_t fail(eb_error* error, int32_t code, std::string_view message) {
  if (error) {
    error->code = code;
    size_t n = message.size() < EB_ERROR_MESSAGE_BYTES - 1 ? message.size() : EB_ERROR_MESSAGE_BYTES - 1;
    std::memcpy(error->message, message.data(), n);
    error->message[n] = 0;
  }
  return code;
}

// Runs f (which returns an eb_code); an exception becomes an error code.
template <class F>
int32_t guard(eb_error* error, F&& f) noexcept {
  try {
    return f();
  } catch (const std::bad_alloc&) {
    return fail(error, EB_OUT_OF_MEMORY, "out of memory");
  } catch (const std::exception& e) {
    return fail(error, EB_INTERNAL, e.what());
  } catch (...) {
    return fail(error, EB_INTERNAL, "unknown exception");
  }
}

inline size_t size_of(int32_t dtype) {
  switch (dtype) {
    case EB_UINT8: case EB_INT8: case EB_BOOL: return 1;
    case EB_UINT16: case EB_INT16: case EB_FLOAT16: case EB_BFLOAT16: return 2;
    case EB_FLOAT32: case EB_INT32: case EB_UINT32: return 4;
    case EB_FLOAT64: case EB_INT64: case EB_UINT64: return 8;
    default: return 0;
  }
}

// The memory table's copy_between; null where the backend is older than 1.1 or has none.
inline auto copy_between(const eb_memory_table& t) -> decltype(t.copy_between) {
  return t.struct_size >= offsetof(eb_memory_table, copy_between) + sizeof t.copy_between ? t.copy_between : nullptr;
}

// A copy of an eb_tensor with the questions that kernels ask. Absent: dtype EB_UNDEFINED.
struct TensorView {
  int32_t dtype = EB_UNDEFINED;
  std::vector<int64_t> dims, strides;

  TensorView() = default;
  explicit TensorView(const eb_tensor& t) : dtype(t.dtype), dims(t.dims, t.dims + t.rank), strides(t.strides, t.strides + t.rank) {}
  bool present() const { return dtype != EB_UNDEFINED; }
  int64_t rank() const { return static_cast<int64_t>(dims.size()); }
  int64_t dim(int64_t i) const { return dims[static_cast<size_t>(i < 0 ? i + rank() : i)]; }
  int64_t count() const { int64_t n = 1; for (int64_t d : dims) n *= d; return n; }
  int64_t bytes() const { return count() * static_cast<int64_t>(size_of(dtype)); }
  // Dense in the given order; axes of extent 1 may have any stride. A dense tensor of <= 1 non-unit axis is both.
  bool row_major() const {
    if (count() == 0) return true;
    int64_t n = 1;
    for (int64_t i = rank(); i-- > 0;) {
      if (dims[size_t(i)] != 1 && strides[size_t(i)] != n) return false;
      n *= dims[size_t(i)];
    }
    return true;
  }
  bool channels_last() const {
    if (rank() < 3 || count() == 0) return row_major();
    int64_t n = 1;
    auto check = [&](int64_t i) { bool ok = dims[size_t(i)] == 1 || strides[size_t(i)] == n; n *= dims[size_t(i)]; return ok; };
    if (!check(1)) return false;
    for (int64_t i = rank(); i-- > 2;) if (!check(i)) return false;
    return check(0);
  }
  bool same_layout(const TensorView& o) const { return dims == o.dims && strides == o.strides; }
};

class NodeView {
 public:
  explicit NodeView(const eb_node& n) : node_(n) {
    for (uint32_t i = 0; i < n.input_count; ++i) inputs_.emplace_back(n.inputs[i]);
    for (uint32_t i = 0; i < n.output_count; ++i) outputs_.emplace_back(n.outputs[i]);
  }
  const eb_node& raw() const { return node_; }
  std::string_view op() const { return view(node_.op_type); }
  std::string_view domain() const { return view(node_.domain); }
  std::string_view name() const { return view(node_.name); }
  int opset() const { return node_.opset; }
  int input_count() const { return static_cast<int>(inputs_.size()); }
  int output_count() const { return static_cast<int>(outputs_.size()); }
  // An absent view for indices past the end.
  const TensorView& in(int i) const { return i < input_count() ? inputs_[size_t(i)] : absent_; }
  const TensorView& out(int i) const { return i < output_count() ? outputs_[size_t(i)] : absent_; }
  const void* host(int i) const { return i < input_count() && node_.host_inputs ? node_.host_inputs[i] : nullptr; }
  // int32/int64 content of a host input.
  std::vector<int64_t> host_ints(int i) const {
    std::vector<int64_t> v;
    if (!host(i)) return v;
    for (int64_t k = 0; k < in(i).count(); ++k)
      v.push_back(in(i).dtype == EB_INT32 ? static_cast<const int32_t*>(host(i))[k] : static_cast<const int64_t*>(host(i))[k]);
    return v;
  }
  const eb_attribute* find(std::string_view name, int32_t kind) const {
    for (uint32_t i = 0; i < node_.attribute_count; ++i)
      if (view(node_.attributes[i].name) == name && node_.attributes[i].kind == kind) return &node_.attributes[i];
    return nullptr;
  }
  bool has_attr(std::string_view name) const {
    for (uint32_t i = 0; i < node_.attribute_count; ++i) if (view(node_.attributes[i].name) == name) return true;
    return false;
  }
  int64_t attr_int(std::string_view name, int64_t fallback) const { auto* a = find(name, EB_ATTR_INT); return a ? a->i : fallback; }
  double attr_float(std::string_view name, double fallback) const { auto* a = find(name, EB_ATTR_FLOAT); return a ? a->f : fallback; }
  std::string attr_string(std::string_view name, std::string_view fallback) const {
    auto* a = find(name, EB_ATTR_STRING);
    return std::string(a ? view(a->s) : fallback);
  }
  std::vector<int64_t> attr_ints(std::string_view name, std::vector<int64_t> fallback = {}) const {
    auto* a = find(name, EB_ATTR_INTS);
    return a ? std::vector<int64_t>(a->ints, a->ints + a->count) : fallback;
  }
  std::vector<float> attr_floats(std::string_view name) const {
    auto* a = find(name, EB_ATTR_FLOATS);
    return a ? std::vector<float>(a->floats, a->floats + a->count) : std::vector<float>();
  }
  std::vector<std::string> attr_strings(std::string_view name) const {
    std::vector<std::string> v;
    if (auto* a = find(name, EB_ATTR_STRINGS)) for (uint64_t i = 0; i < a->count; ++i) v.emplace_back(view(a->strings[i]));
    return v;
  }

 private:
  const eb_node& node_;
  std::vector<TensorView> inputs_, outputs_;
  TensorView absent_;
};

}  // namespace eb

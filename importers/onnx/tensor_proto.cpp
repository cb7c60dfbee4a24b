// See tensor_proto.h.
#include "importers/onnx/tensor_proto.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "importers/onnx/limits.h"
#include "onnx/onnx_pb.h"

namespace eng {
namespace {

using onnx::TensorProto;

std::string where(const TensorProto& proto) {
  return cat("tensor '", shown_name(proto.name()), "' (", name_of(static_cast<DType>(proto.data_type())), ")");
}

// Bits of one element as ONNX stores it in raw data; 0 where that is not fixed (strings) or not known.
int64_t raw_bits(int32_t type) {
  if (const size_t bytes = size_of(static_cast<DType>(type))) return static_cast<int64_t>(bytes) * 8;
  switch (type) {
    case TensorProto::COMPLEX64: return 64;
    case TensorProto::COMPLEX128: return 128;
    case TensorProto::FLOAT8E4M3FN: case TensorProto::FLOAT8E4M3FNUZ: case TensorProto::FLOAT8E5M2: case TensorProto::FLOAT8E5M2FNUZ:
    case TensorProto::FLOAT8E8M0: return 8;
    case TensorProto::UINT4: case TensorProto::INT4: case TensorProto::FLOAT4E2M1: return 4;
    case TensorProto::UINT2: case TensorProto::INT2: return 2;
    default: return 0;
  }
}

Result<Shape> read_dims(const TensorProto& proto, DType type) {
  Shape shape(proto.dims().begin(), proto.dims().end());
  if (shape.size() > 64) return invalid("has ", shape.size(), " dimensions, at most 64 are read");
  ENG_ASSIGN(int64_t count, checked_element_count(shape));
  if (!checked_multiply(count, 16)) return invalid("shape ", to_string(shape), " of ", name_of(type), " is larger than memory can be");
  return shape;
}

// Elements that lie in a typed list (float_data, int32_data, ...), converted with a range check.
template <class To, class List>
Status copy_list(const List& list, Tensor& out, int64_t count, const char* field) {
  if (list.size() != count) return invalid("shape ", to_string(out.shape()), " wants ", count, " elements, ", field, " has ", list.size());
  To* to = out.mutable_data<To>();
  for (int64_t i = 0; i < count; ++i) {
    const auto v = list.Get(static_cast<int>(i));
    to[i] = static_cast<To>(v);
    if constexpr (std::is_integral_v<To>)
      if (static_cast<decltype(v)>(to[i]) != v) return invalid("element ", i, " is ", v, ", out of range for its type");
  }
  return {};
}

Status copy_typed(const TensorProto& p, Tensor& out, int64_t count) {
  switch (out.dtype()) {
    case DType::kFloat32: return copy_list<float>(p.float_data(), out, count, "float_data");
    case DType::kFloat64: return copy_list<double>(p.double_data(), out, count, "double_data");
    case DType::kInt64: return copy_list<int64_t>(p.int64_data(), out, count, "int64_data");
    case DType::kUint64: return copy_list<uint64_t>(p.uint64_data(), out, count, "uint64_data");
    case DType::kUint32: return copy_list<uint32_t>(p.uint64_data(), out, count, "uint64_data");
    case DType::kInt32: return copy_list<int32_t>(p.int32_data(), out, count, "int32_data");
    case DType::kInt16: return copy_list<int16_t>(p.int32_data(), out, count, "int32_data");
    case DType::kInt8: return copy_list<int8_t>(p.int32_data(), out, count, "int32_data");
    case DType::kUint16: case DType::kFloat16: case DType::kBFloat16: return copy_list<uint16_t>(p.int32_data(), out, count, "int32_data");
    case DType::kUint8: case DType::kBool: return copy_list<uint8_t>(p.int32_data(), out, count, "int32_data");
    default: return {};
  }
}

// Which typed list belongs to the element type; 0 where none does.
int own_list(int32_t type) {
  switch (type) {
    case TensorProto::FLOAT: case TensorProto::COMPLEX64: return TensorProto::kFloatDataFieldNumber;
    case TensorProto::DOUBLE: case TensorProto::COMPLEX128: return TensorProto::kDoubleDataFieldNumber;
    case TensorProto::INT64: return TensorProto::kInt64DataFieldNumber;
    case TensorProto::UINT32: case TensorProto::UINT64: return TensorProto::kUint64DataFieldNumber;
    case TensorProto::STRING: return TensorProto::kStringDataFieldNumber;
    default: return TensorProto::kInt32DataFieldNumber;
  }
}

// Only one place may hold the content, and it must be the one that fits the type.
Status check_places(const TensorProto& p) {
  const std::pair<int, int> lists[] = {{TensorProto::kFloatDataFieldNumber, p.float_data_size()}, {TensorProto::kInt32DataFieldNumber, p.int32_data_size()},
                                       {TensorProto::kStringDataFieldNumber, p.string_data_size()}, {TensorProto::kInt64DataFieldNumber, p.int64_data_size()},
                                       {TensorProto::kDoubleDataFieldNumber, p.double_data_size()}, {TensorProto::kUint64DataFieldNumber, p.uint64_data_size()}};
  const bool external = p.data_location() == TensorProto::EXTERNAL;
  for (auto [field, size] : lists) {
    if (size == 0) continue;
    if (p.has_raw_data() && !p.raw_data().empty()) return invalid("has both raw data and a typed list of ", size, " elements; one of them must be wrong");
    if (external) return invalid("says that its data is external and also holds ", size, " elements");
    if (field != own_list(p.data_type())) return invalid("holds its elements in a list of another element type");
  }
  if (external && p.has_raw_data() && !p.raw_data().empty()) return invalid("says that its data is external and also holds ", p.raw_data().size(), " raw bytes");
  if (!external && p.external_data_size() > 0) return invalid("names external data but does not say that its data is external");
  if (p.has_segment()) return unsupported("is one segment of a larger tensor; segments are not supported");
  return {};
}

void normalize_bools(Tensor& t) {
  if (t.dtype() != DType::kBool) return;
  auto* p = t.mutable_data<uint8_t>();
  for (size_t i = 0; i < t.byte_count(); ++i) p[i] = p[i] != 0;
}

Result<Tensor> decode(const TensorProto& p, ExternalData* external) {
  const auto type = static_cast<DType>(p.data_type());
  if (!TensorProto::DataType_IsValid(p.data_type()) || type == DType::kUndefined)
    return invalid("has the element type ", p.data_type(), ", which ONNX does not know");
  ENG_ASSIGN(Shape shape, read_dims(p, type));
  ENG_TRY(check_places(p));
  const int64_t count = element_count(shape);
  const int64_t bits = raw_bits(p.data_type());
  if (p.data_location() == TensorProto::EXTERNAL) {
    if (type == DType::kString) return invalid("strings cannot be external data");
    if (!external) return invalid("has external data, which is not allowed here");
    ENG_ASSIGN(Tensor t, external->read(p, type, shape));
    normalize_bools(t);
    return t;
  }
  if (p.has_raw_data() && (!p.raw_data().empty() || count == 0)) {
    if (type == DType::kString) return invalid("strings cannot be raw data");
    const int64_t wanted = count / 8 * bits + (count % 8 * bits + 7) / 8, got = static_cast<int64_t>(p.raw_data().size());
    if (bits && got != wanted) return invalid("shape ", to_string(shape), " wants ", wanted, " bytes, raw data has ", got);
    if (!size_of(type)) return Tensor(type, {}).reshaped(shape);
    Tensor t(type, shape);
    std::memcpy(t.mutable_bytes(), p.raw_data().data(), t.byte_count());
    normalize_bools(t);
    return t;
  }
  if (!size_of(type)) {
    if (type == DType::kString && p.string_data_size() != count)
      return invalid("shape ", to_string(shape), " wants ", count, " strings, there are ", p.string_data_size());
    return Tensor(type, {}).reshaped(shape);
  }
  const int64_t listed = std::max({p.float_data_size(), p.int32_data_size(), p.int64_data_size(), p.double_data_size(), p.uint64_data_size()});
  if (listed != count) return invalid("shape ", to_string(shape), " wants ", count, " elements, the tensor holds ", listed);
  Tensor t(type, shape);
  ENG_TRY(copy_typed(p, t, count));
  normalize_bools(t);
  return t;
}

Result<int64_t> parse_number(const std::string& key, const std::string& text) {
  int64_t n = 0;
  if (text.empty() || text.size() > 19) return invalid("external data: ", key, " '", shown_name(text), "' is not a number from 0 to 2^63-1");
  for (char c : text) {
    auto next = c >= '0' && c <= '9' ? checked_multiply(n, 10) : std::nullopt;
    if (next) next = checked_add(*next, c - '0');
    if (!next) return invalid("external data: ", key, " '", text, "' is not a number from 0 to 2^63-1");
    n = *next;
  }
  return n;
}

}  // namespace

std::string shown_name(const std::string& name) { return name.size() <= 120 ? name : name.substr(0, 100) + cat("... (", name.size(), " bytes)"); }

Result<ExternalData::Entry> ExternalData::parse(const TensorProto& proto) {
  Entry entry;
  for (const auto& pair : proto.external_data()) {
    if (pair.key() == "location") entry.location = pair.value();
    else if (pair.key() == "checksum") entry.checksum = pair.value();
    else if (pair.key() == "offset") { ENG_ASSIGN(entry.offset, parse_number("offset", pair.value())); }
    else if (pair.key() == "length") { ENG_ASSIGN(entry.length, parse_number("length", pair.value())); }
    else return invalid("external data has the unknown key '", shown_name(pair.key()), "'; known are location, offset, length, checksum");
  }
  std::transform(entry.checksum.begin(), entry.checksum.end(), entry.checksum.begin(), [](char c) { return c >= 'A' && c <= 'F' ? c - 'A' + 'a' : c; });
  return entry;
}

Result<Tensor> ExternalData::read(const TensorProto& proto, DType type, const Shape& shape) {
  if (folder_.empty()) return invalid("has external data, but the model does not come from a file; external data lies beside a model's file");
  ENG_ASSIGN(Entry entry, parse(proto));
  ENG_ASSIGN(const OpenFile file, open_beneath(folder_, entry.location, allow_symlinks_));
  Source& from = sources_[{file.device, file.inode}];
  const int64_t count = element_count(shape), bits = raw_bits(proto.data_type());
  const int64_t wanted = count / 8 * bits + (count % 8 * bits + 7) / 8;
  if (entry.length < 0) entry.length = wanted;
  if (entry.length != wanted) return invalid("external data: length is ", entry.length, ", shape ", to_string(shape), " wants ", wanted, " bytes");
  if (entry.offset > file.size || entry.length > file.size - entry.offset)
    return invalid("external data: bytes ", entry.offset, " to ", entry.offset, "+", entry.length, " are wanted, '", shown_name(entry.location), "' has ", file.size);
  if (!entry.checksum.empty()) {
    if (from.sha1.empty()) { ENG_ASSIGN(from.sha1, sha1_of(file)); }
    if (from.sha1 != entry.checksum)
      return invalid("external data: the checksum of '", shown_name(entry.location), "' is ", from.sha1, ", the model says ", shown_name(entry.checksum));
  }
  if (!size_of(type)) return Tensor(type, {}).reshaped(shape);
  const auto key = std::make_pair(entry.offset, entry.length);
  auto known = from.tensors.find(key);
  if (known != from.tensors.end() && known->second.dtype() == type) return known->second.reshaped(shape);
  from.loaded += entry.length;
  if (from.loaded / 2 > file.size)
    return invalid("external data: tensors overlap so much that '", shown_name(entry.location), "' would be loaded more than twice");
  Tensor t(type, shape);
  ENG_TRY(read_exactly(file, entry.offset, t.mutable_bytes(), entry.length).in(entry.location));
  from.tensors[key] = t;
  return t;
}

Result<Tensor> decode_tensor(const TensorProto& proto, ExternalData* external) {
  auto t = decode(proto, external);
  if (!t.ok()) return t.status().in(where(proto));
  return t;
}

Result<Tensor> decode_sparse(const onnx::SparseTensorProto& proto, ExternalData* external, int64_t& budget) {
  const std::string at = cat("sparse tensor '", shown_name(proto.values().name()), "'");
  const Shape dims(proto.dims().begin(), proto.dims().end());
  auto elements = checked_element_count(dims);
  if (!elements.ok()) return elements.status().in(at);
  ENG_ASSIGN(Tensor values, decode_tensor(proto.values(), external));
  ENG_ASSIGN(Tensor indices, decode_tensor(proto.indices(), external));
  const int64_t width = static_cast<int64_t>(size_of(values.dtype()));
  if (width == 0) return unsupported(at, ": ", name_of(values.dtype()), " values are not supported");
  if (values.shape().size() != 1) return invalid(at, ": values must have one dimension, got ", to_string(values.shape()));
  const int64_t stored = values.shape()[0], rank = static_cast<int64_t>(dims.size());
  const bool linear = indices.shape() == Shape{stored};
  if (indices.dtype() != DType::kInt64 || (!linear && indices.shape() != Shape{stored, rank}))
    return invalid(at, ": ", stored, " values of a rank-", rank, " tensor want int64 indices of shape [", stored, "] or [", stored, ",", rank, "], got ",
                   name_of(indices.dtype()), " ", to_string(indices.shape()));
  auto bytes = checked_multiply(*elements, width);
  if (!bytes || *bytes > budget)
    return invalid(at, ": made dense, shape ", to_string(dims), " takes more than the ", onnx_limits::kSparseBytes >> 20, " MiB allowed for the sparse tensors of a model");
  budget -= *bytes;
  Tensor out(values.dtype(), dims);
  const auto strides = row_major_strides(dims);
  const int64_t* index = indices.data<int64_t>();
  int64_t last = -1;
  for (int64_t i = 0; i < stored; ++i) {
    int64_t position = linear ? index[i] : 0;
    bool inside = !linear || (position >= 0 && position < *elements);
    for (int64_t d = 0; !linear && d < rank; ++d) {
      const int64_t k = index[i * rank + d];
      if (k < 0 || k >= dims[static_cast<size_t>(d)]) { inside = false; break; }
      position += k * strides[static_cast<size_t>(d)];
    }
    if (!inside) return invalid(at, ": index ", i, " lies outside the shape ", to_string(dims));
    if (position <= last) return invalid(at, ": indices must increase, entry ", i, " does not");
    last = position;
    std::memcpy(out.mutable_bytes() + position * width, values.bytes() + i * width, static_cast<size_t>(width));
  }
  normalize_bools(out);
  return out;
}

Status encode_tensor(const Tensor& tensor, const std::string& name, TensorProto& out) {
  if (!size_of(tensor.dtype()))
    return unsupported("tensor '", shown_name(name), "' of ", name_of(tensor.dtype()), " cannot be written: its content is not kept");
  out.set_name(name);
  out.set_data_type(static_cast<int32_t>(tensor.dtype()));
  for (int64_t d : tensor.shape()) out.add_dims(d);
  out.set_raw_data(tensor.bytes(), tensor.byte_count());
  return {};
}

}  // namespace eng

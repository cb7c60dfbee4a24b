// See npz.h.
#include "importers/npz/npz.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>
#include <new>

#include "engine/io/file.h"
#include "importers/npz/zip.h"

namespace eng {
namespace {

constexpr int64_t kMaxHeader = 1'000'000;

struct TypeRow {
  DType type;
  char kind;
  int size;
};
constexpr TypeRow kTypes[] = {
    {DType::kBool, 'b', 1},   {DType::kInt8, 'i', 1},    {DType::kInt16, 'i', 2},   {DType::kInt32, 'i', 4},
    {DType::kInt64, 'i', 8},  {DType::kUint8, 'u', 1},   {DType::kUint16, 'u', 2},  {DType::kUint32, 'u', 4},
    {DType::kUint64, 'u', 8}, {DType::kFloat16, 'f', 2}, {DType::kFloat32, 'f', 4}, {DType::kFloat64, 'f', 8},
};

struct Header {
  DType type = DType::kUndefined;
  bool big_endian = false, fortran = false;
  Shape shape;
};

// The header is a Python dictionary: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
class HeaderParser {
 public:
  explicit HeaderParser(const std::string& text) : text_(text) {}

  Status parse(Header& header) {
    bool descr = false, order = false, shape = false;
    if (!take('{')) return broken();
    while (!take('}')) {
      std::string key;
      if (!quoted(key) || !take(':')) return broken();
      if (key == "descr" && !descr) {
        ENG_TRY(parse_type(header));
        descr = true;
      } else if (key == "fortran_order" && !order) {
        if (word("True")) header.fortran = true;
        else if (!word("False")) return broken();
        order = true;
      } else if (key == "shape" && !shape) {
        if (!parse_shape(header.shape)) return broken();
        shape = true;
      } else {
        return broken();
      }
      if (!take(',') && !at('}')) return broken();
    }
    return descr && order && shape ? Status() : broken();
  }

 private:
  Status broken() const { return invalid("the array's header cannot be read: ", printable(text_.substr(0, 100))); }
  void skip() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t')) ++at_;
  }
  bool at(char c) {
    skip();
    return at_ < text_.size() && text_[at_] == c;
  }
  bool take(char c) {
    if (!at(c)) return false;
    ++at_;
    return true;
  }
  bool word(const char* w) {
    skip();
    if (text_.compare(at_, std::strlen(w), w) != 0) return false;
    at_ += std::strlen(w);
    return true;
  }
  bool quoted(std::string& out) {
    skip();
    if (at_ >= text_.size() || (text_[at_] != '\'' && text_[at_] != '"')) return false;
    size_t end = text_.find(text_[at_], at_ + 1);
    if (end == std::string::npos) return false;
    out = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return true;
  }
  Status parse_type(Header& header) {
    if (at('[')) return unsupported("the array holds records; wanted plain numbers");
    std::string descr;
    if (!quoted(descr) || descr.size() < 2) return broken();
    char order = descr[0];
    bool marked = order == '<' || order == '>' || order == '|' || order == '=';
    std::string rest = marked ? descr.substr(1) : descr;
    for (const TypeRow& row : kTypes)
      if (rest == std::string(1, row.kind) + std::to_string(row.size)) header.type = row.type;
    header.big_endian = order == '>';
    if (header.type != DType::kUndefined) return {};
    const char* what = rest[0] == 'O' ? "Python objects" : rest[0] == 'U' || rest[0] == 'S' ? "texts" : rest[0] == 'c' ? "complex numbers" : "something else";
    return unsupported("the array holds ", what, " ('", printable(descr), "'); wanted bool, integers, or floats of 2, 4 or 8 bytes");
  }
  bool parse_shape(Shape& shape) {
    if (!take('(')) return false;
    while (!take(')')) {
      skip();
      int64_t value = 0;
      size_t digits = 0;
      for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_, ++digits) {
        if (digits >= 18) return false;
        value = value * 10 + (text_[at_] - '0');
      }
      if (digits == 0 || shape.size() >= 64) return false;
      take('L');  // Python 2 wrote long integers so
      shape.push_back(value);
      if (!take(',') && !at(')')) return false;
    }
    return true;
  }

  const std::string& text_;
  size_t at_ = 0;
};

using ReadFn = std::function<Status(void* destination, int64_t count)>;

Status read_header(const ReadFn& read, int64_t total, Header& header, int64_t& header_bytes) {
  unsigned char start[12];
  if (total < 10) return invalid("is too short for a NumPy array");
  ENG_TRY(read(start, 8));
  if (std::memcmp(start, "\x93NUMPY", 6) != 0) return invalid("is no NumPy array (it does not begin with \\x93NUMPY)");
  int version = start[6];
  if (version < 1 || version > 3) return unsupported("NumPy array format ", version, "; known are 1 to 3");
  int length_bytes = version == 1 ? 2 : 4;
  if (total < 8 + length_bytes) return invalid("is cut short in its header");
  ENG_TRY(read(start + 8, length_bytes));
  int64_t length = start[8] | start[9] << 8;
  if (length_bytes == 4) length |= int64_t{start[10]} << 16 | int64_t{start[11]} << 24;
  header_bytes = 8 + length_bytes + length;
  if (length > kMaxHeader || header_bytes > total) return invalid("its array header of ", length, " bytes is cut short or too long");
  std::string text(static_cast<size_t>(length), '\0');
  ENG_TRY(read(text.data(), length));
  return HeaderParser(text).parse(header);
}

void swap_bytes(Tensor& tensor) {
  size_t size = size_of(tensor.dtype());
  std::byte* p = tensor.mutable_bytes();
  for (int64_t i = 0, n = tensor.element_count(); i < n; ++i, p += size) std::reverse(p, p + size);
}

// Column-major content to row-major.
Tensor from_fortran(const Tensor& columns) {
  const Shape& shape = columns.shape();
  size_t size = size_of(columns.dtype()), rank = shape.size();
  Tensor rows(columns.dtype(), shape);
  std::vector<int64_t> stride(rank, 1), index(rank, 0);
  for (size_t d = 1; d < rank; ++d) stride[d] = stride[d - 1] * shape[d - 1];
  for (int64_t i = 0, n = columns.element_count(); i < n; ++i) {
    int64_t from = 0;
    for (size_t d = 0; d < rank; ++d) from += index[d] * stride[d];
    std::memcpy(rows.mutable_bytes() + static_cast<size_t>(i) * size, columns.bytes() + static_cast<size_t>(from) * size, size);
    for (size_t d = rank; d-- > 0;) {
      if (++index[d] < shape[d]) break;
      index[d] = 0;
    }
  }
  return rows;
}

Result<Tensor> read_array(const ReadFn& read, int64_t total) {
  Header header;
  int64_t header_bytes = 0;
  ENG_TRY(read_header(read, total, header, header_bytes));
  Result<int64_t> count = checked_element_count(header.shape);
  auto bytes = count.ok() ? checked_multiply(*count, static_cast<int64_t>(size_of(header.type))) : std::nullopt;
  if (!bytes) return invalid("its shape ", header.shape, " overflows");
  if (*bytes != total - header_bytes)
    return invalid("its ", name_of(header.type), " array of shape ", header.shape, " needs ", *bytes, " bytes, there are ", total - header_bytes);
  try {
    Tensor tensor(header.type, header.shape);
    ENG_TRY(read(tensor.mutable_bytes(), *bytes));
    if (header.big_endian) swap_bytes(tensor);
    if (header.type == DType::kBool)
      for (int64_t i = 0; i < *count; ++i) tensor.mutable_data<uint8_t>()[i] = tensor.data<uint8_t>()[i] != 0;
    return header.fortran && header.shape.size() > 1 ? from_fortran(tensor) : tensor;
  } catch (const std::bad_alloc&) {
    return invalid("its ", *bytes, " bytes do not fit in memory");
  }
}

Result<std::string> array_header(const Tensor& array) {
  const TypeRow* row = std::find_if(std::begin(kTypes), std::end(kTypes), [&](const TypeRow& r) { return r.type == array.dtype(); });
  if (row == std::end(kTypes)) return unsupported("NumPy files hold no ", name_of(array.dtype()));
  std::string shape;
  for (int64_t d : array.shape()) shape += std::to_string(d) + (array.shape().size() == 1 ? "," : ", ");
  if (array.shape().size() > 1) shape.resize(shape.size() - 2);
  std::string text = cat("{'descr': '", row->size == 1 ? '|' : '<', row->kind, row->size, "', 'fortran_order': False, 'shape': (", shape, "), }");
  text.resize((10 + text.size() + 1 + 63) / 64 * 64 - 10 - 1, ' ');
  text += '\n';
  std::string out("\x93NUMPY\x01\x00", 8);
  out += static_cast<char>(text.size() & 255);
  out += static_cast<char>(text.size() >> 8);
  return out + text;
}

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text.data(), text.size())); }

}  // namespace

Result<Tensor> read_npy(const std::string& path) {
  ENG_ASSIGN(InputFile file, InputFile::open(path));
  int64_t at = 0;
  auto read = [&](void* destination, int64_t count) -> Status {
    ENG_TRY(file.read(at, destination, count));
    at += count;
    return {};
  };
  Result<Tensor> array = read_array(read, file.size());
  if (!array.ok()) return array.status().in(printable(path));
  return array;
}

Result<std::map<std::string, Tensor>> read_npz(const std::string& path) {
  ENG_ASSIGN(ZipReader zip, ZipReader::open(path));
  std::map<std::string, Tensor> out;
  for (const ZipEntry& entry : zip.entries()) {
    std::string where = cat(printable(path), ": member '", printable(entry.name), "'");
    if (!entry.name.ends_with(".npy")) return invalid(where, " is no .npy array");
    std::string name = entry.name.substr(0, entry.name.size() - 4);
    ENG_ASSIGN(auto member, ZipMember::open(zip, entry));
    Result<Tensor> array = read_array([&](void* d, int64_t n) { return member->read(d, n); }, entry.size);
    if (!array.ok()) return array.status().in(where);
    ENG_TRY(member->finish());
    if (!out.emplace(name, std::move(*array)).second) return invalid(where, " is there twice");
  }
  return out;
}

Status write_npz(const std::string& path, const std::map<std::string, Tensor>& arrays) {
  ENG_ASSIGN(auto zip, ZipWriter::create(path));
  for (const auto& [name, array] : arrays) {
    Result<std::string> header = array_header(array);
    if (!header.ok()) return header.status().in(cat("array '", printable(name), "'"));
    ENG_TRY(zip->add(name + ".npy", {bytes_of(*header), {array.bytes(), array.byte_count()}}));
  }
  return zip->finish();
}

Status write_npy(const std::string& path, const Tensor& array) {
  ENG_ASSIGN(std::string header, array_header(array));
  ENG_ASSIGN(auto file, AtomicFile::create(path));
  ENG_TRY(file->write(header.data(), header.size()));
  ENG_TRY(file->write(array.bytes(), array.byte_count()));
  return file->commit();
}

}  // namespace eng

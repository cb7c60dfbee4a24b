// See safetensors.h.
#include "engine/io/safetensors.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "engine/io/checksum.h"
#include "engine/io/file.h"

namespace eng {
namespace {

using nlohmann::json;

constexpr int64_t kMaxHeader = 16'000'000;  // 100,000 tensors; parsing takes some ten times as much memory
constexpr const char* kHeaderKey = "crc32c.header";
const std::string kPrefix = "crc32c.";

struct TypeRow {
  DType type;
  const char* name;
};
constexpr TypeRow kTypes[] = {
    {DType::kFloat64, "F64"}, {DType::kFloat32, "F32"}, {DType::kFloat16, "F16"}, {DType::kBFloat16, "BF16"},
    {DType::kInt64, "I64"},   {DType::kInt32, "I32"},   {DType::kInt16, "I16"},   {DType::kInt8, "I8"},
    {DType::kUint64, "U64"},  {DType::kUint32, "U32"},  {DType::kUint16, "U16"},  {DType::kUint8, "U8"},
    {DType::kBool, "BOOL"},
};

struct Entry {
  std::string name;
  DType type;
  Shape shape;
  int64_t begin = 0, end = 0;
};

Result<int64_t> size_field(const json& value) {
  if (!value.is_number_unsigned() || value.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)) return invalid("is no size");
  return static_cast<int64_t>(value.get<uint64_t>());
}

Result<Entry> parse_entry(const std::string& name, const json& value) {
  std::string where = cat("tensor '", printable(name), "'");
  if (!value.is_object() || !value.contains("dtype") || !value.contains("shape") || !value.contains("data_offsets"))
    return invalid(where, " lacks dtype, shape or data_offsets");
  const json &type = value["dtype"], &shape = value["shape"], &offsets = value["data_offsets"];
  Entry entry;
  entry.name = name;
  const TypeRow* row = std::find_if(std::begin(kTypes), std::end(kTypes), [&](const TypeRow& r) { return type == r.name; });
  if (row == std::end(kTypes)) {
    std::string got = type.is_string() ? printable(type.get_ref<const std::string&>().substr(0, 32)) : std::string("no text");
    return unsupported(where, ": element type '", got, "' is not supported; supported are F64 F32 F16 BF16, I8 to I64, U8 to U64, BOOL");
  }
  entry.type = row->type;
  if (!shape.is_array() || shape.size() > 64 || !offsets.is_array() || offsets.size() != 2)
    return invalid(where, ": shape or data_offsets is no list of the right length");
  for (const json& dimension : shape) {
    Result<int64_t> n = size_field(dimension);
    if (!n.ok()) return invalid(where, ": a dimension is negative, too big or no number");
    entry.shape.push_back(*n);
  }
  Result<int64_t> begin = size_field(offsets[0]), end = size_field(offsets[1]);
  if (!begin.ok() || !end.ok() || *begin > *end) return invalid(where, ": data_offsets are no ascending pair");
  entry.begin = *begin;
  entry.end = *end;
  Result<int64_t> count = checked_element_count(entry.shape);
  std::optional<int64_t> bytes = count.ok() ? checked_multiply(*count, static_cast<int64_t>(size_of(entry.type))) : std::nullopt;
  if (!bytes) return invalid(where, ": shape ", entry.shape, " overflows");
  if (*bytes != entry.end - entry.begin)
    return invalid(where, ": ", row->name, " ", entry.shape, " needs ", *bytes, " bytes, data_offsets span ", entry.end - entry.begin);
  return entry;
}

// Every byte of the data belongs to exactly one tensor. Sorts by place.
Status check_coverage(std::vector<Entry>& entries, int64_t data_size) {
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return std::pair(a.begin, a.end) < std::pair(b.begin, b.end); });
  int64_t at = 0;
  for (const Entry& entry : entries) {
    if (entry.begin != at)
      return invalid("tensor '", printable(entry.name), "' begins at byte ", entry.begin, " of the data where ", at,
                     " was due: tensors overlap or leave a hole");
    at = entry.end;
  }
  if (at != data_size) return invalid("the tensors need ", at, " bytes of data, the file has ", data_size, ": it is cut short or too long");
  return {};
}

// The header's CRC is over length field and header with its own eight digits as zeros.
Result<bool> check_header(std::string& raw, const std::map<std::string, std::string>& metadata) {
  auto stored = metadata.find(kHeaderKey);
  if (stored == metadata.end()) return false;
  std::string mark = cat("\"", kHeaderKey, "\":\"");
  size_t at = raw.find(mark, 8);
  if (at == std::string::npos || stored->second.size() != 8) return invalid("the header's checksum is damaged");
  for (size_t i = 0; i < 8; ++i) raw[at + mark.size() + i] = '0';
  if (hex8(crc32c(raw.data(), raw.size())) != stored->second) return invalid("the header is damaged: its checksum does not fit");
  return true;
}

Status parse_header(std::string& raw, int64_t data_size, std::vector<Entry>& entries, SafetensorsFile& out) {
  json header = json::parse(raw.begin() + 8, raw.end(), nullptr, false);
  if (!header.is_object()) return invalid("the header is no JSON object");
  for (const auto& [name, value] : header.items()) {
    if (name == "__metadata__") {
      if (!value.is_object()) return invalid("__metadata__ is no object");
      for (const auto& [key, text] : value.items()) {
        if (!text.is_string()) return invalid("metadata '", printable(key), "' is no text");
        out.metadata[key] = text.get<std::string>();
      }
    } else {
      ENG_ASSIGN(Entry entry, parse_entry(name, value));
      entries.push_back(std::move(entry));
    }
  }
  ENG_ASSIGN(out.checksummed, check_header(raw, out.metadata));
  return check_coverage(entries, data_size);
}

Status read_into(const InputFile& file, SafetensorsFile& out) {
  if (file.size() < 8) return invalid("has ", file.size(), " bytes, too few for a safetensors file");
  unsigned char length_bytes[8];
  ENG_TRY(file.read(0, length_bytes, 8));
  uint64_t length = 0;
  for (int i = 7; i >= 0; --i) length = length << 8 | length_bytes[i];
  if (length < 2 || length > static_cast<uint64_t>(std::min(kMaxHeader, file.size() - 8)))
    return invalid("header length ", length, " does not fit the file's ", file.size(), " bytes (and at most ", kMaxHeader,
                   "): damaged, or not a safetensors file");
  std::string raw(8 + static_cast<size_t>(length), '\0');
  ENG_TRY(file.read(0, raw.data(), static_cast<int64_t>(raw.size())));
  std::vector<Entry> entries;
  int64_t data_start = static_cast<int64_t>(raw.size());
  ENG_TRY(parse_header(raw, file.size() - data_start, entries, out));
  for (const Entry& entry : entries) {
    Tensor tensor(entry.type, entry.shape);
    ENG_TRY(file.read(data_start + entry.begin, tensor.mutable_bytes(), entry.end - entry.begin));
    auto stored = out.metadata.find(kPrefix + entry.name);
    if (stored == out.metadata.end())
      out.checksummed = false;
    else if (stored->second != hex8(crc32c(tensor.bytes(), tensor.byte_count())))
      return invalid("tensor '", printable(entry.name), "' is damaged: its checksum does not fit");
    out.tensors.emplace(entry.name, std::move(tensor));
  }
  std::erase_if(out.metadata, [](const auto& item) { return item.first.starts_with(kPrefix); });
  return {};
}

}  // namespace

Result<SafetensorsFile> read_safetensors(const std::string& path) {
  ENG_ASSIGN(InputFile file, InputFile::open(path));
  SafetensorsFile out;
  ENG_TRY(read_into(file, out).in(printable(path)));
  return out;
}

Status write_safetensors(const std::string& path, const SafetensorsFile& file, bool checksums) {
  json header = json::object();
  json metadata = json::object();
  for (const auto& [key, value] : file.metadata) metadata[key] = value;
  int64_t offset = 0;
  for (const auto& [name, tensor] : file.tensors) {
    const TypeRow* row = std::find_if(std::begin(kTypes), std::end(kTypes), [&](const TypeRow& r) { return r.type == tensor.dtype(); });
    if (row == std::end(kTypes)) return unsupported("tensor '", printable(name), "': safetensors holds no ", name_of(tensor.dtype()));
    if (name == "__metadata__") return unsupported("a tensor cannot be called __metadata__ in a safetensors file");
    int64_t end = offset + static_cast<int64_t>(tensor.byte_count());
    header[name] = {{"dtype", row->name}, {"shape", tensor.shape()}, {"data_offsets", {offset, end}}};
    if (checksums) metadata[kPrefix + name] = hex8(crc32c(tensor.bytes(), tensor.byte_count()));
    offset = end;
  }
  if (checksums) metadata[kHeaderKey] = "00000000";
  if (!metadata.empty()) header["__metadata__"] = metadata;
  // Names and values that are not UTF-8 cannot be JSON.
  std::string text;
  try {
    text = header.dump();
  } catch (const json::exception&) {
    return unsupported("cannot write '", printable(path), "': a tensor's name or a metadata text is not UTF-8");
  }
  text.resize((text.size() + 7) / 8 * 8, ' ');
  if (static_cast<int64_t>(text.size()) > kMaxHeader) return unsupported("the header of '", printable(path), "' would pass 16 MB");
  std::string raw(8, '\0');
  for (size_t i = 0; i < 8; ++i) raw[i] = static_cast<char>(text.size() >> (8 * i) & 255);
  raw += text;
  if (checksums) {
    std::string mark = cat("\"", kHeaderKey, "\":\""), digits = hex8(crc32c(raw.data(), raw.size()));
    raw.replace(raw.find(mark) + mark.size(), 8, digits);
  }
  ENG_ASSIGN(auto target, AtomicFile::create(path));
  ENG_TRY(target->write(raw.data(), raw.size()));
  for (const auto& [name, tensor] : file.tensors) ENG_TRY(target->write(tensor.bytes(), tensor.byte_count()));
  return target->commit();
}

bool looks_like_safetensors(const std::string& path) {
  Result<InputFile> file = InputFile::open(path);
  unsigned char start[9];
  if (!file.ok() || file->size() < 10 || !file->read(0, start, 9).ok()) return false;
  uint64_t length = 0;
  for (int i = 7; i >= 0; --i) length = length << 8 | start[i];
  return start[8] == '{' && length <= static_cast<uint64_t>(std::min(kMaxHeader, file->size() - 8));
}

}  // namespace eng

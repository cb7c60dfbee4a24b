// See zip.h. Field layouts: PKWARE's APPNOTE.TXT, sections 4.3.7 (local header), 4.3.12 (central directory), 4.3.14-16 (ends).
#include "importers/npz/zip.h"

#include <zlib.h>

#include <algorithm>
#include <cstring>

namespace eng {
namespace {

constexpr uint32_t kLocalMark = 0x04034b50, kCentralMark = 0x02014b50, kEndMark = 0x06054b50, kEnd64Mark = 0x06064b50,
                   kLocatorMark = 0x07064b50;
constexpr int64_t kMaxDirectory = 16'000'000, kMaxRatio = 1032;  // deflate cannot shrink further than 1032:1

uint64_t get(const uint8_t* p, int bytes) {
  uint64_t value = 0;
  for (int i = bytes - 1; i >= 0; --i) value = value << 8 | p[i];
  return value;
}
void put_number(std::string& out, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i) & 255);
}

// Sizes and offset that do not fit 32 bits stand in extra field 1, in this order, each only where its 32-bit field is all ones.
Status apply_zip64(const uint8_t* extra, size_t length, uint64_t& size, uint64_t& compressed, uint64_t& offset) {
  if (size != UINT32_MAX && compressed != UINT32_MAX && offset != UINT32_MAX) return {};
  for (size_t at = 0; at + 4 <= length;) {
    uint64_t id = get(extra + at, 2), bytes = get(extra + at + 2, 2);
    at += 4;
    if (bytes > length - at) break;
    if (id == 1) {
      size_t p = at;
      for (uint64_t* field : {&size, &compressed, &offset}) {
        if (*field != UINT32_MAX) continue;
        if (p + 8 > at + bytes) return invalid("a zip64 field is too short");
        *field = get(extra + p, 8);
        p += 8;
      }
      return {};
    }
    at += bytes;
  }
  return {};
}

}  // namespace

Status ZipReader::find_directory(int64_t& offset, int64_t& size, int64_t& count) const {
  int64_t tail = std::min<int64_t>(file_.size(), 22 + 65535);
  if (tail < 22) return invalid("is too short for a zip archive (", file_.size(), " bytes)");
  std::vector<uint8_t> bytes(static_cast<size_t>(tail));
  ENG_TRY(file_.read(file_.size() - tail, bytes.data(), tail));
  int64_t end = tail - 22;
  while (end >= 0 && !(get(&bytes[static_cast<size_t>(end)], 4) == kEndMark && end + 22 + static_cast<int64_t>(get(&bytes[static_cast<size_t>(end) + 20], 2)) == tail)) --end;
  if (end < 0) return invalid("has no end record of a zip archive: cut short, or no .npz file");
  const uint8_t* p = &bytes[static_cast<size_t>(end)];
  if (get(p + 4, 2) != 0 || get(p + 6, 2) != 0) return unsupported("is one of several disks of an archive");
  uint64_t n = get(p + 10, 2), directory_size = get(p + 12, 4), directory_offset = get(p + 16, 4);
  int64_t end_at = file_.size() - tail + end;
  if ((n == 0xffff || directory_size == UINT32_MAX || directory_offset == UINT32_MAX) && end_at >= 20) {
    uint8_t locator[20], record[56];
    ENG_TRY(file_.read(end_at - 20, locator, 20));
    if (get(locator, 4) == kLocatorMark) {
      uint64_t at = get(locator + 8, 8);
      if (at > static_cast<uint64_t>(INT64_MAX)) return invalid("its zip64 end record lies outside of the file");
      ENG_TRY(file_.read(static_cast<int64_t>(at), record, 56));
      if (get(record, 4) != kEnd64Mark) return invalid("its zip64 end record is damaged");
      n = get(record + 32, 8);
      directory_size = get(record + 40, 8);
      directory_offset = get(record + 48, 8);
      end_at = static_cast<int64_t>(at);
    }
  }
  auto limit = static_cast<uint64_t>(end_at);
  if (directory_offset > limit || directory_size > limit - directory_offset) return invalid("its zip directory lies outside of the file");
  if (directory_size > kMaxDirectory || n > directory_size / 46) return invalid("its zip directory of ", n, " members is damaged or too big");
  offset = static_cast<int64_t>(directory_offset);
  size = static_cast<int64_t>(directory_size);
  count = static_cast<int64_t>(n);
  return {};
}

Status ZipReader::read_directory() {
  int64_t size = 0, count = 0;
  ENG_TRY(find_directory(directory_offset_, size, count));
  std::vector<uint8_t> bytes(static_cast<size_t>(size) + 1);
  ENG_TRY(file_.read(directory_offset_, bytes.data(), size));
  size_t at = 0, end = static_cast<size_t>(size);
  for (int64_t i = 0; i < count; ++i) {
    if (end - at < 46 || get(&bytes[at], 4) != kCentralMark) return invalid("entry ", i, " of its zip directory is damaged");
    const uint8_t* p = &bytes[at];
    uint64_t flags = get(p + 8, 2), method = get(p + 10, 2), compressed = get(p + 20, 4), plain = get(p + 24, 4), offset = get(p + 42, 4);
    size_t name = get(p + 28, 2), extra = get(p + 30, 2), comment = get(p + 32, 2);
    if (end - at - 46 < name + extra + comment) return invalid("entry ", i, " of its zip directory is cut short");
    ZipEntry entry;
    entry.name.assign(reinterpret_cast<const char*>(p + 46), name);
    ENG_TRY(apply_zip64(p + 46 + name, extra, plain, compressed, offset));
    std::string where = cat("member '", printable(entry.name), "'");
    if (flags & 1) return unsupported(where, " is encrypted");
    if (method != 0 && method != 8) return unsupported(where, " uses zip method ", method, "; stored (0) and deflated (8) are supported");
    auto limit = static_cast<uint64_t>(directory_offset_);
    if (offset > limit || compressed > limit - offset) return invalid(where, " lies outside of the file");
    if ((method == 0 && plain != compressed) || plain / kMaxRatio > compressed + 64)
      return invalid(where, " claims ", plain, " bytes from ", compressed, ", which cannot be");
    entry.size = static_cast<int64_t>(plain);
    entry.compressed_size = static_cast<int64_t>(compressed);
    entry.header_offset = static_cast<int64_t>(offset);
    entry.crc32 = static_cast<uint32_t>(get(p + 16, 4));
    entry.deflated = method == 8;
    entries_.push_back(std::move(entry));
    at += 46 + name + extra + comment;
  }
  return {};
}

Result<ZipReader> ZipReader::open(const std::string& path) {
  ENG_ASSIGN(InputFile file, InputFile::open(path));
  ZipReader reader(std::move(file));
  ENG_TRY(reader.read_directory().in(printable(path)));
  return reader;
}

Result<int64_t> ZipReader::data_offset(const ZipEntry& entry) const {
  uint8_t header[30];
  ENG_TRY(file_.read(entry.header_offset, header, 30));
  int64_t offset = entry.header_offset + 30 + static_cast<int64_t>(get(header + 26, 2) + get(header + 28, 2));
  if (get(header, 4) != kLocalMark || offset > directory_offset_ || entry.compressed_size > directory_offset_ - offset)
    return invalid("member '", printable(entry.name), "' of '", printable(file_.path()), "' is damaged");
  return offset;
}

struct ZipMember::State {
  const InputFile* file = nullptr;
  ZipEntry entry;
  int64_t at = 0, end = 0;  // compressed bytes in the file
  int64_t given = 0;        // bytes handed out
  uLong crc = 0;
  bool inflating = false;
  z_stream stream{};
  std::vector<uint8_t> buffer;
  ~State() {
    if (inflating) inflateEnd(&stream);
  }
  Status damaged(const char* what) const { return invalid("member '", printable(entry.name), "' of '", printable(file->path()), "' ", what); }
};

ZipMember::ZipMember() : state_(std::make_unique<State>()) {}
ZipMember::~ZipMember() = default;

Result<std::unique_ptr<ZipMember>> ZipMember::open(const ZipReader& zip, const ZipEntry& entry) {
  std::unique_ptr<ZipMember> member(new ZipMember());
  State& s = *member->state_;
  s.file = &zip.file();
  s.entry = entry;
  ENG_ASSIGN(s.at, zip.data_offset(entry));
  s.end = s.at + entry.compressed_size;
  s.crc = crc32(0, nullptr, 0);
  if (entry.deflated) {
    if (inflateInit2(&s.stream, -15) != Z_OK) return internal_error("zlib cannot be set up");
    s.inflating = true;
    s.buffer.resize(1 << 16);
  }
  return member;
}

Status ZipMember::read(void* destination, int64_t count) {
  State& s = *state_;
  auto* out = static_cast<Bytef*>(destination);
  if (count > s.entry.size - s.given) return s.damaged("is shorter than its content says");
  if (!s.inflating) {
    ENG_TRY(s.file->read(s.at, out, count));
    s.at += count;
  }
  for (int64_t left = s.inflating ? count : 0; left > 0;) {
    if (s.stream.avail_in == 0 && s.at < s.end) {
      int64_t piece = std::min<int64_t>(s.end - s.at, static_cast<int64_t>(s.buffer.size()));
      ENG_TRY(s.file->read(s.at, s.buffer.data(), piece));
      s.stream.next_in = s.buffer.data();
      s.stream.avail_in = static_cast<uInt>(piece);
      s.at += piece;
    }
    s.stream.next_out = out + (count - left);
    s.stream.avail_out = static_cast<uInt>(std::min<int64_t>(left, 1 << 30));
    uInt before = s.stream.avail_out;
    int code = inflate(&s.stream, Z_NO_FLUSH);
    left -= before - s.stream.avail_out;
    if (left > 0 && (code != Z_OK || (s.stream.avail_in == 0 && s.at == s.end && before == s.stream.avail_out)))
      return s.damaged("is damaged or cut short");
  }
  for (int64_t done = 0; done < count;) {
    int64_t piece = std::min<int64_t>(count - done, 1 << 30);
    s.crc = crc32(s.crc, out + done, static_cast<uInt>(piece));
    done += piece;
  }
  s.given += count;
  return {};
}

Status ZipMember::finish() {
  if (state_->given != state_->entry.size) return state_->damaged("is longer than its content says");
  if (static_cast<uint32_t>(state_->crc) != state_->entry.crc32) return state_->damaged("is damaged: its checksum does not fit");
  return {};
}

Result<std::unique_ptr<ZipWriter>> ZipWriter::create(const std::string& path) {
  auto writer = std::make_unique<ZipWriter>();
  ENG_ASSIGN(writer->file_, AtomicFile::create(path));
  return writer;
}

Status ZipWriter::put(const std::string& bytes) {
  at_ += static_cast<int64_t>(bytes.size());
  return file_->write(bytes.data(), bytes.size());
}

// Local headers always carry 64-bit sizes: they are then right for any size.
Status ZipWriter::add(const std::string& name, const std::vector<std::span<const std::byte>>& pieces) {
  if (name.size() > 60000) return invalid("the name '", printable(name.substr(0, 60)), "...' is too long for a zip archive");
  ZipEntry entry;
  entry.name = name;
  entry.header_offset = at_;
  uLong crc = crc32(0, nullptr, 0);
  for (auto piece : pieces) {
    entry.size += static_cast<int64_t>(piece.size());
    for (size_t done = 0; done < piece.size();) {
      size_t part = std::min<size_t>(piece.size() - done, 1 << 30);
      crc = crc32(crc, reinterpret_cast<const Bytef*>(piece.data()) + done, static_cast<uInt>(part));
      done += part;
    }
  }
  entry.crc32 = static_cast<uint32_t>(crc);
  entry.compressed_size = entry.size;
  std::string header;
  put_number(header, kLocalMark, 4);
  put_number(header, 45, 2);         // version that knows zip64
  put_number(header, 0x0800, 2);     // names are UTF-8
  put_number(header, 0, 2);          // stored
  put_number(header, 0x00210000, 4); // 1 January 1980: the same bytes on every run
  put_number(header, entry.crc32, 4);
  put_number(header, UINT32_MAX, 4);
  put_number(header, UINT32_MAX, 4);
  put_number(header, name.size(), 2);
  put_number(header, 20, 2);
  header += name;
  put_number(header, 1, 2);
  put_number(header, 16, 2);
  put_number(header, static_cast<uint64_t>(entry.size), 8);
  put_number(header, static_cast<uint64_t>(entry.size), 8);
  ENG_TRY(put(header));
  for (auto piece : pieces) ENG_TRY(file_->write(piece.data(), piece.size()));
  at_ += entry.size;
  entries_.push_back(std::move(entry));
  return {};
}

Status ZipWriter::finish() {
  int64_t start = at_;
  for (const ZipEntry& entry : entries_) {
    std::string record;
    put_number(record, kCentralMark, 4);
    put_number(record, 45, 2);
    put_number(record, 45, 2);
    put_number(record, 0x0800, 2);
    put_number(record, 0, 2);
    put_number(record, 0x00210000, 4);
    put_number(record, entry.crc32, 4);
    put_number(record, UINT32_MAX, 4);
    put_number(record, UINT32_MAX, 4);
    put_number(record, entry.name.size(), 2);
    put_number(record, 28, 2);
    put_number(record, 0, 8);  // comment length, disk, attributes
    put_number(record, 0, 2);
    put_number(record, UINT32_MAX, 4);
    record += entry.name;
    put_number(record, 1, 2);
    put_number(record, 24, 2);
    put_number(record, static_cast<uint64_t>(entry.size), 8);
    put_number(record, static_cast<uint64_t>(entry.size), 8);
    put_number(record, static_cast<uint64_t>(entry.header_offset), 8);
    ENG_TRY(put(record));
  }
  auto size = static_cast<uint64_t>(at_ - start), end64 = static_cast<uint64_t>(at_), count = static_cast<uint64_t>(entries_.size());
  std::string tail;
  put_number(tail, kEnd64Mark, 4);
  put_number(tail, 44, 8);
  put_number(tail, 45, 2);
  put_number(tail, 45, 2);
  put_number(tail, 0, 8);  // disks
  put_number(tail, count, 8);
  put_number(tail, count, 8);
  put_number(tail, size, 8);
  put_number(tail, static_cast<uint64_t>(start), 8);
  put_number(tail, kLocatorMark, 4);
  put_number(tail, 0, 4);
  put_number(tail, end64, 8);
  put_number(tail, 1, 4);
  put_number(tail, kEndMark, 4);
  put_number(tail, 0, 4);
  put_number(tail, 0xffff, 2);
  put_number(tail, 0xffff, 2);
  put_number(tail, UINT32_MAX, 4);
  put_number(tail, UINT32_MAX, 4);
  put_number(tail, 0, 2);
  ENG_TRY(put(tail));
  return file_->commit();
}

}  // namespace eng

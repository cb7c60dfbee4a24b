// The zip container as NumPy uses it: members stored or deflated, with zip64 sizes where needed. The central directory is what
// counts; a member's data must lie before it. No encryption, no other methods, no several disks.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/io/file.h"
#include "graph/base/status.h"

namespace eng {

struct ZipEntry {
  std::string name;
  int64_t size = 0, compressed_size = 0;  // bytes
  int64_t header_offset = 0;
  uint32_t crc32 = 0;
  bool deflated = false;
};

class ZipReader {
 public:
  static Result<ZipReader> open(const std::string& path);
  const std::vector<ZipEntry>& entries() const { return entries_; }
  const InputFile& file() const { return file_; }
  Result<int64_t> data_offset(const ZipEntry& entry) const;

 private:
  explicit ZipReader(InputFile file) : file_(std::move(file)) {}
  Status find_directory(int64_t& offset, int64_t& size, int64_t& count) const;
  Status read_directory();
  InputFile file_;
  std::vector<ZipEntry> entries_;
  int64_t directory_offset_ = 0;
};

// Reads one member from front to back.
class ZipMember {
 public:
  static Result<std::unique_ptr<ZipMember>> open(const ZipReader& zip, const ZipEntry& entry);
  ~ZipMember();
  // Exactly `count` bytes, or an error.
  Status read(void* destination, int64_t count);
  // All was read, and the checksum fits.
  Status finish();

 private:
  ZipMember();
  struct State;
  std::unique_ptr<State> state_;
};

// Members are stored as they are, without compression; the file appears with finish().
class ZipWriter {
 public:
  static Result<std::unique_ptr<ZipWriter>> create(const std::string& path);
  // One member made of several pieces of memory.
  Status add(const std::string& name, const std::vector<std::span<const std::byte>>& pieces);
  Status finish();

 private:
  Status put(const std::string& bytes);
  std::unique_ptr<AtomicFile> file_;
  std::vector<ZipEntry> entries_;
  int64_t at_ = 0;
};

}  // namespace eng

// The one place that opens files. Reading takes regular files only (a FIFO, device, socket or folder is refused by name, without
// blocking) and never more than the caller allows. Writing is atomic: a temporary file in the same folder is written, fsynced,
// renamed onto the target, and the folder is fsynced; whatever goes wrong, the target is the old file or the new one, and the
// temporary file is gone. Errors name the path and the system's reason. SIGXFSZ should be ignored by the program (see
// ignore_file_size_signal), so that a file size limit is an error like a full disk.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/base/status.h"

namespace eng {

// Path for a message or a log: control characters and bytes that are not UTF-8 become \xNN; DEL, C1 controls and characters that are not seen but change how
// others are (writing direction, zero width, line separators) become \uNNNN, as in JSON, so that text which was JSON still is.
std::string printable(std::string_view text);
// The same for a message of several lines, as a terminal may have it: names out of a file must not move its cursor or turn its lines round. Lines and tabs stay.
std::string for_terminal(std::string_view text);

// What stands under a path, following symbolic links.
enum class FileKind : uint8_t { kMissing, kRegular, kFolder, kSpecial, kBrokenLink };
struct FileInfo {
  FileKind kind = FileKind::kMissing;
  bool is_link = false;       // the path itself is a symbolic link
  int64_t size = 0;           // bytes of a regular file
  int64_t modified_ns = 0;    // nanoseconds since 1970
  std::string problem;        // why it cannot be used ("a FIFO", "a symbolic link that leads nowhere"); empty for files and folders
};
FileInfo file_info(const std::string& path);

// The whole file; an error where it is longer than `max_bytes`.
Result<std::vector<std::byte>> read_file(const std::string& path, int64_t max_bytes);
// The same into a buffer that keeps its capacity between calls.
Status read_file_into(const std::string& path, int64_t max_bytes, std::vector<std::byte>& bytes);
Result<std::string> read_text_file(const std::string& path, int64_t max_bytes);

// An open regular file that is read at offsets; one descriptor, checked once, so the file cannot be exchanged in between.
class InputFile {
 public:
  static Result<InputFile> open(const std::string& path);
  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&& other) noexcept;
  ~InputFile();
  int64_t size() const { return size_; }
  const std::string& path() const { return path_; }
  // Exactly `count` bytes from `offset`; an error where the file ends before.
  Status read(int64_t offset, void* destination, int64_t count) const;

 private:
  InputFile(int descriptor, int64_t size, std::string path);
  int descriptor_ = -1;
  int64_t size_ = 0;
  std::string path_;
};

// A big file mapped for reading. The file must not be shortened by others while it is mapped.
class MappedFile {
 public:
  static Result<MappedFile> open(const std::string& path, int64_t max_bytes);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();
  std::span<const std::byte> bytes() const { return {data_, size_}; }

 private:
  MappedFile(const std::byte* data, size_t size) : data_(data), size_(size) {}
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// A file that appears under its name only when commit() has returned fine. Dropped without commit, it leaves no trace.
class AtomicFile {
 public:
  static Result<std::unique_ptr<AtomicFile>> create(const std::string& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  Status write(const void* bytes, size_t count);
  Status commit();

 private:
  AtomicFile(int descriptor, std::string path, std::string temporary);
  int descriptor_;
  std::string path_, temporary_;
};
Status write_file_atomic(const std::string& path, std::string_view bytes);

// Names in a folder, in byte order, without "." and "..".
Result<std::vector<std::string>> list_folder(const std::string& path);
// Makes a folder and its missing parents.
Status make_folder(const std::string& path);
std::string join_path(const std::string& folder, const std::string& name);
void ignore_file_size_signal();

// Keeps a folder for one process: a second one that asks is refused while the first lives. Nothing is left in the folder.
class FolderLock {
 public:
  FolderLock() = default;
  explicit FolderLock(int descriptor) : descriptor_(descriptor) {}
  FolderLock(FolderLock&& other) noexcept { *this = std::move(other); }
  FolderLock& operator=(FolderLock&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~FolderLock();

 private:
  int descriptor_ = -1;
};
// kUsage where another process has it. A file system without locks gives a lock that holds nobody back.
Result<FolderLock> lock_folder(const std::string& path);

}  // namespace eng

// Opening files that a model names. A data file is opened once, beneath the model's folder and through no symlink (openat2 with
// RESOLVE_BENEATH and RESOLVE_NO_SYMLINKS, or the same walked by hand on old kernels); then that descriptor is checked and read,
// so nothing can be exchanged in between. Only regular files with one hard link pass. allow_symlinks lifts the link rules.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "graph/base/status.h"

namespace eng {

// A descriptor that closes itself.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  FileDescriptor& operator=(FileDescriptor&& other) noexcept;
  ~FileDescriptor();
  int get() const { return fd_; }
  bool open() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

struct OpenFile {
  FileDescriptor fd;
  int64_t size = 0;
  uint64_t device = 0, inode = 0;  // the same for every spelling of its path
};

// A regular file by a path that the user gave: symlinks are followed, FIFOs, devices and folders are refused.
Result<OpenFile> open_user_file(const std::string& path);
// `location` (relative, as written in the model) beneath `folder`.
Result<OpenFile> open_beneath(const std::string& folder, const std::string& location, bool allow_symlinks);
// Exactly `size` bytes from `offset`; an error where the file has become shorter.
Status read_exactly(const OpenFile& file, int64_t offset, void* out, int64_t size);
// The folder of the file that `path` leads to, symlinks resolved.
Result<std::string> folder_of(const std::string& path);
// SHA-1 of the whole file, lower-case hexadecimal (ONNX's `checksum` of external data).
Result<std::string> sha1_of(const OpenFile& file);

}  // namespace eng

// See safe_file.h.
#include "importers/onnx/safe_file.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>

namespace eng {
namespace {

constexpr int kFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;  // non-blocking: opening a FIFO must not wait for a writer

std::string reason(int error) { return std::strerror(error); }

const char* kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a FIFO";
  if (S_ISCHR(mode) || S_ISBLK(mode)) return "a device";
  if (S_ISSOCK(mode)) return "a socket";
  return "not a regular file";
}

Result<OpenFile> regular(FileDescriptor fd, const std::string& shown, bool one_link) {
  struct stat info;
  if (fstat(fd.get(), &info) != 0) return not_found("cannot read '", shown, "': ", reason(errno));
  if (!S_ISREG(info.st_mode)) return invalid("'", shown, "' is ", kind_of(info.st_mode), ", a regular file is wanted");
  if (one_link && info.st_nlink != 1)
    return invalid("'", shown, "' has ", info.st_nlink, " hard links and may be a file outside the model's folder; put a copy of the file there");
  OpenFile file;
  file.fd = std::move(fd);
  file.size = info.st_size;
  file.device = info.st_dev;
  file.inode = info.st_ino;
  return file;
}

// The lexical rule, the same on every system: relative, and never upwards.
Status check_location(const std::string& location) {
  if (location.empty()) return invalid("the location of external data is empty");
  if (location.find('\0') != std::string::npos) return invalid("the location of external data contains a zero byte");
  if (location[0] == '/') return invalid("external data '", location, "' is an absolute path; it must lie in the model's folder");
  for (size_t i = 0; i <= location.size();) {
    const size_t end = std::min(location.find('/', i), location.size());
    if (location.compare(i, end - i, "..") == 0)
      return invalid("external data '", location, "' climbs out of a folder with '..'; it must lie in the model's folder");
    i = end + 1;
  }
  return {};
}

// What openat2 does, for kernels and sandboxes without it: every component is opened with O_NOFOLLOW.
int open_by_steps(int folder, const std::string& location) {
  FileDescriptor held;
  int at = folder;
  for (size_t i = 0; i < location.size();) {
    const size_t end = std::min(location.find('/', i), location.size());
    const std::string part = location.substr(i, end - i);
    i = end + 1;
    if (part.empty() || part == ".") continue;
    const bool last = i >= location.size();
    const int fd = openat(at, part.c_str(), last ? kFlags | O_NOFOLLOW : O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || last) return fd;
    held = FileDescriptor(fd);
    at = fd;
  }
  errno = ENOENT;
  return -1;
}

}  // namespace

FileDescriptor& FileDescriptor::operator=(FileDescriptor&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

FileDescriptor::~FileDescriptor() {
  if (fd_ >= 0) ::close(fd_);
}

Result<OpenFile> open_user_file(const std::string& path) {
  FileDescriptor fd(::open(path.c_str(), kFlags));
  if (!fd.open()) return not_found("cannot open '", path, "': ", reason(errno));
  return regular(std::move(fd), path, false);
}

Result<OpenFile> open_beneath(const std::string& folder, const std::string& location, bool allow_symlinks) {
  ENG_TRY(check_location(location));
  const std::string shown = folder + "/" + location;
  FileDescriptor root(::open(folder.empty() ? "." : folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!root.open()) return not_found("cannot open the model's folder '", folder, "': ", reason(errno));
  if (allow_symlinks) {
    FileDescriptor fd(openat(root.get(), location.c_str(), kFlags));
    if (!fd.open()) return not_found("cannot open external data '", shown, "': ", reason(errno));
    return regular(std::move(fd), shown, false);
  }
  struct open_how how;
  std::memset(&how, 0, sizeof how);
  how.flags = kFlags;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS;
  int raw = static_cast<int>(syscall(SYS_openat2, root.get(), location.c_str(), &how, sizeof how));
  if (raw < 0 && (errno == ENOSYS || errno == EPERM || errno == EINVAL)) raw = open_by_steps(root.get(), location);
  if (raw < 0 && errno == ELOOP)
    return invalid("external data '", shown, "' is reached through a symlink, which could lead out of the model's folder; "
                   "put the file itself there");
  if (raw < 0 && errno == ENXIO) return invalid("external data '", shown, "' is a FIFO, socket or device, a regular file is wanted");
  if (raw < 0) return not_found("cannot open external data '", shown, "': ", reason(errno));
  return regular(FileDescriptor(raw), shown, true);
}

Status read_exactly(const OpenFile& file, int64_t offset, void* out, int64_t size) {
  auto* p = static_cast<char*>(out);
  while (size > 0) {
    const ssize_t n = pread(file.fd.get(), p, static_cast<size_t>(std::min<int64_t>(size, 1 << 30)), offset);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return invalid("reading failed: ", reason(errno));
    if (n == 0) return invalid("the file ended ", size, " bytes early; it was truncated while it was read");
    p += n;
    offset += n;
    size -= n;
  }
  return {};
}

Result<std::string> folder_of(const std::string& path) {
  char* resolved = realpath(path.c_str(), nullptr);
  if (!resolved) return not_found("cannot resolve '", path, "': ", reason(errno));
  std::string folder(resolved);
  std::free(resolved);
  const size_t slash = folder.rfind('/');
  return slash == 0 ? "/" : folder.substr(0, slash);
}

Result<std::string> sha1_of(const OpenFile& file) {
  std::array<uint32_t, 5> h = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
  auto block = [&](const uint8_t* p) {
    uint32_t w[80];
    for (int i = 0; i < 16; ++i) w[i] = uint32_t{p[4 * i]} << 24 | uint32_t{p[4 * i + 1]} << 16 | uint32_t{p[4 * i + 2]} << 8 | p[4 * i + 3];
    for (int i = 16; i < 80; ++i) w[i] = std::rotl(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
    auto [a, b, c, d, e] = h;
    for (int i = 0; i < 80; ++i) {
      const uint32_t f = i < 20 ? (b & c) | (~b & d) : i < 40 ? b ^ c ^ d : i < 60 ? (b & c) | (b & d) | (c & d) : b ^ c ^ d;
      const uint32_t k = i < 20 ? 0x5a827999 : i < 40 ? 0x6ed9eba1 : i < 60 ? 0x8f1bbcdc : 0xca62c1d6;
      const uint32_t t = std::rotl(a, 5) + f + e + k + w[i];
      e = d, d = c, c = std::rotl(b, 30), b = a, a = t;
    }
    h[0] += a, h[1] += b, h[2] += c, h[3] += d, h[4] += e;
  };
  std::vector<uint8_t> buffer(1 << 20);
  int64_t done = 0;
  while (file.size - done >= 64) {
    const int64_t n = std::min<int64_t>(static_cast<int64_t>(buffer.size()), (file.size - done) / 64 * 64);
    ENG_TRY(read_exactly(file, done, buffer.data(), n));
    for (int64_t i = 0; i < n; i += 64) block(buffer.data() + i);
    done += n;
  }
  uint8_t tail[128] = {};
  const int64_t rest = file.size - done;
  ENG_TRY(read_exactly(file, done, tail, rest));
  tail[rest] = 0x80;
  const int64_t end = rest < 56 ? 64 : 128;
  for (int i = 0; i < 8; ++i) tail[end - 1 - i] = static_cast<uint8_t>(static_cast<uint64_t>(file.size) * 8 >> (8 * i));
  for (int64_t i = 0; i < end; i += 64) block(tail + i);
  std::string text;
  for (uint32_t word : h)
    for (int shift = 28; shift >= 0; shift -= 4) text += "0123456789abcdef"[word >> shift & 15];
  return text;
}

}  // namespace eng

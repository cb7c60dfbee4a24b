// See file.h.
#include "engine/io/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <utility>

namespace eng {
namespace {

Status system_error(const std::string& what, const std::string& path, int error) {
  std::string text = cat(what, " '", printable(path), "': ", std::strerror(error));
  return error == ENOENT || error == ENOTDIR ? Status(Code::kNotFound, text) : Status(Code::kInvalid, text);
}

const char* special_name(mode_t mode) {
  if (S_ISFIFO(mode)) return "a FIFO";
  if (S_ISSOCK(mode)) return "a socket";
  if (S_ISCHR(mode) || S_ISBLK(mode)) return "a device";
  if (S_ISDIR(mode)) return "a folder";
  return "not a regular file";
}

// Length of the UTF-8 sequence at text[i], 0 where there is no valid one.
size_t utf8_length(std::string_view text, size_t i) {
  auto byte = [&](size_t k) { return static_cast<unsigned char>(text[k]); };
  unsigned char lead = byte(i);
  size_t length = lead < 0x80 ? 1 : lead >= 0xC2 && lead < 0xE0 ? 2 : lead >= 0xE0 && lead < 0xF0 ? 3 : lead >= 0xF0 && lead < 0xF5 ? 4 : 0;
  if (length == 0 || i + length > text.size()) return 0;
  for (size_t k = 1; k < length; ++k)
    if ((byte(i + k) & 0xC0) != 0x80) return 0;
  if (length == 3 && ((lead == 0xE0 && byte(i + 1) < 0xA0) || (lead == 0xED && byte(i + 1) > 0x9F))) return 0;  // overlong, surrogate
  if (length == 4 && ((lead == 0xF0 && byte(i + 1) < 0x90) || (lead == 0xF4 && byte(i + 1) > 0x8F))) return 0;
  return length;
}

// Of a valid sequence as utf8_length found it.
uint32_t code_point(std::string_view sequence) {
  if (sequence.size() == 1) return static_cast<unsigned char>(sequence[0]);
  uint32_t code = static_cast<unsigned char>(sequence[0]) & (0x7fu >> sequence.size());
  for (char c : sequence.substr(1)) code = code << 6 | (static_cast<unsigned char>(c) & 0x3fu);
  return code;
}

// Whether nobody sees the character, but a terminal or reader is misled by it. First and last of each range.
bool is_unseen(uint32_t code) {
  static constexpr std::pair<uint32_t, uint32_t> ranges[] = {
      {0x7f, 0x9f},        // DEL, C1 controls: some terminals obey them as they do ESC sequences
      {0xad, 0xad},        // soft hyphen
      {0x61c, 0x61c},      // a direction mark
      {0x180e, 0x180e},    // zero width
      {0x200b, 0x200f},    // zero width, direction marks
      {0x2028, 0x202e},    // line and paragraph separators, direction embeddings and overrides
      {0x2060, 0x206f},    // zero width, direction isolates, deprecated format characters
      {0xfeff, 0xfeff},    // zero width, byte order mark
      {0xfff9, 0xfffb},    // interlinear annotations
      {0x1bca0, 0x1bca3},  // shorthand format controls
      {0x1d173, 0x1d17a},  // musical format controls
      {0xe0000, 0xe007f},  // tags
  };
  return std::any_of(std::begin(ranges), std::end(ranges), [code](const auto& range) { return code >= range.first && code <= range.second; });
}

// \uNNNN, a surrogate pair above U+FFFF.
void append_escape(std::string& out, uint32_t code) {
  if (code > 0xffff) {
    append_escape(out, 0xd800 + ((code - 0x10000) >> 10));
    code = 0xdc00 + ((code - 0x10000) & 0x3ff);
  }
  out += "\\u";
  for (int shift = 12; shift >= 0; shift -= 4) out += "0123456789abcdef"[code >> shift & 15];
}

// Opens for reading without blocking on a FIFO, and says what it is where it is no regular file.
Result<int> open_regular(const std::string& path, int64_t& size) {
  if (path.find('\0') != std::string::npos) return invalid("'", printable(path), "' is no file name: it has a zero byte");
  int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (descriptor < 0) {
    int error = errno;
    if (error == ENXIO) return invalid("'", printable(path), "' is a socket or a device, wanted a regular file");
    return system_error("cannot open", path, error);
  }
  struct stat info {};
  if (::fstat(descriptor, &info) != 0) {
    int error = errno;
    ::close(descriptor);
    return system_error("cannot read", path, error);
  }
  if (!S_ISREG(info.st_mode)) {
    ::close(descriptor);
    return invalid("'", printable(path), "' is ", special_name(info.st_mode), ", wanted a regular file");
  }
  size = info.st_size;
  return descriptor;
}

Status too_big(const std::string& path, int64_t size, int64_t limit) {
  return invalid("'", printable(path), "' has ", size, " bytes; at most ", limit, " are read here");
}

// Where a link points in the end, so that an atomic write keeps the link and replaces the file behind it.
std::string final_path(const std::string& path) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0 || !S_ISLNK(info.st_mode)) return path;
  char* resolved = ::realpath(path.c_str(), nullptr);
  if (!resolved) return path;
  std::string result = resolved;
  std::free(resolved);
  return result;
}

std::string folder_of(const std::string& path) {
  size_t slash = path.find_last_of('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace

std::string printable(std::string_view text) {
  static const char* digits = "0123456789abcdef";
  std::string out;
  for (size_t i = 0; i < text.size();) {
    size_t length = utf8_length(text, i);
    unsigned char byte = static_cast<unsigned char>(text[i]);
    if (length == 0 || byte < 0x20) {
      out += {'\\', 'x', digits[byte >> 4], digits[byte & 15]};
      ++i;
      continue;
    }
    const std::string_view sequence = text.substr(i, length);
    if (const uint32_t code = code_point(sequence); is_unseen(code)) append_escape(out, code);
    else out += sequence;
    i += length;
  }
  return out;
}

std::string for_terminal(std::string_view text) {
  std::string out;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find_first_of("\n\t", begin), text.size());
    out += printable(text.substr(begin, end - begin));
    if (end < text.size()) out += text[end];
    begin = end + 1;
  }
  return out;
}

FileInfo file_info(const std::string& path) {
  FileInfo out;
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0) {
    out.problem = std::strerror(errno);
    return out;
  }
  out.is_link = S_ISLNK(info.st_mode);
  if (out.is_link && ::stat(path.c_str(), &info) != 0) {
    out.kind = FileKind::kBrokenLink;
    out.problem = errno == ELOOP ? "a symbolic link that leads to itself" : "a symbolic link that leads nowhere";
    return out;
  }
  out.modified_ns = int64_t{info.st_mtim.tv_sec} * 1000000000 + info.st_mtim.tv_nsec;
  if (S_ISREG(info.st_mode)) {
    out.kind = FileKind::kRegular;
    out.size = info.st_size;
  } else if (S_ISDIR(info.st_mode)) {
    out.kind = FileKind::kFolder;
  } else {
    out.kind = FileKind::kSpecial;
    out.problem = special_name(info.st_mode);
  }
  return out;
}

Result<InputFile> InputFile::open(const std::string& path) {
  int64_t size = 0;
  ENG_ASSIGN(int descriptor, open_regular(path, size));
  return InputFile(descriptor, size, path);
}
InputFile::InputFile(int descriptor, int64_t size, std::string path) : descriptor_(descriptor), size_(size), path_(std::move(path)) {}
InputFile::InputFile(InputFile&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), size_(other.size_), path_(std::move(other.path_)) {}
InputFile& InputFile::operator=(InputFile&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(size_, other.size_);
  std::swap(path_, other.path_);
  return *this;
}
InputFile::~InputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Status InputFile::read(int64_t offset, void* destination, int64_t count) const {
  if (offset < 0 || count < 0 || offset > size_ || count > size_ - offset)
    return invalid("'", printable(path_), "' is cut short: bytes ", offset, " to ", offset, "+", count, " wanted, it has ", size_);
  auto* out = static_cast<char*>(destination);
  while (count > 0) {
    ssize_t got = ::pread(descriptor_, out, static_cast<size_t>(std::min<int64_t>(count, 1 << 30)), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_error("cannot read", path_, errno);
    if (got == 0) return invalid("'", printable(path_), "' became shorter while it was read");
    out += got;
    offset += got;
    count -= got;
  }
  return {};
}

Status read_file_into(const std::string& path, int64_t max_bytes, std::vector<std::byte>& bytes) {
  ENG_ASSIGN(InputFile file, InputFile::open(path));
  if (file.size() > max_bytes) return too_big(path, file.size(), max_bytes);
  bytes.resize(static_cast<size_t>(file.size()));
  return file.read(0, bytes.data(), file.size());
}

Result<std::vector<std::byte>> read_file(const std::string& path, int64_t max_bytes) {
  std::vector<std::byte> bytes;
  ENG_TRY(read_file_into(path, max_bytes, bytes));
  return bytes;
}

Result<std::string> read_text_file(const std::string& path, int64_t max_bytes) {
  ENG_ASSIGN(InputFile file, InputFile::open(path));
  if (file.size() > max_bytes) return too_big(path, file.size(), max_bytes);
  std::string text(static_cast<size_t>(file.size()), '\0');
  ENG_TRY(file.read(0, text.data(), file.size()));
  return text;
}

Result<MappedFile> MappedFile::open(const std::string& path, int64_t max_bytes) {
  int64_t size = 0;
  ENG_ASSIGN(int descriptor, open_regular(path, size));
  if (size > max_bytes || size == 0) {
    ::close(descriptor);
    if (size == 0) return MappedFile(nullptr, 0);
    return too_big(path, size, max_bytes);
  }
  void* data = ::mmap(nullptr, static_cast<size_t>(size), PROT_READ, MAP_PRIVATE, descriptor, 0);
  int error = errno;
  ::close(descriptor);
  if (data == MAP_FAILED) return system_error("cannot map", path, error);
  return MappedFile(static_cast<const std::byte*>(data), static_cast<size_t>(size));
}
MappedFile::MappedFile(MappedFile&& other) noexcept : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}
MappedFile::~MappedFile() {
  if (data_) ::munmap(const_cast<std::byte*>(data_), size_);
}

AtomicFile::AtomicFile(int descriptor, std::string path, std::string temporary)
    : descriptor_(descriptor), path_(std::move(path)), temporary_(std::move(temporary)) {}

Result<std::unique_ptr<AtomicFile>> AtomicFile::create(const std::string& path) {
  static std::atomic<uint32_t> counter{0};
  FileInfo info = file_info(path);
  if (info.kind == FileKind::kFolder || info.kind == FileKind::kSpecial)
    return invalid("cannot write '", printable(path), "': it is ", info.problem.empty() ? "a folder" : info.problem);
  std::string target = final_path(path);
  for (int attempt = 0; attempt < 100; ++attempt) {
    // Not derived from the target's name, which may already be as long as names can be.
    std::string temporary = join_path(folder_of(target), cat(".tmp-", ::getpid(), "-", counter++, ".part"));
    int descriptor = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (descriptor >= 0) return std::unique_ptr<AtomicFile>(new AtomicFile(descriptor, target, temporary));
    if (errno != EEXIST) return system_error("cannot write", path, errno);
  }
  return invalid("cannot write '", printable(path), "': no free temporary name in its folder");
}

AtomicFile::~AtomicFile() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  ::unlink(temporary_.c_str());
}

Status AtomicFile::write(const void* bytes, size_t count) {
  if (descriptor_ < 0) return internal_error("write after commit of '", printable(path_), "'");
  const char* from = static_cast<const char*>(bytes);
  while (count > 0) {
    ssize_t done = ::write(descriptor_, from, std::min<size_t>(count, size_t{1} << 30));
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return system_error("cannot write", path_, errno);
    from += done;
    count -= static_cast<size_t>(done);
  }
  return {};
}

Status AtomicFile::commit() {
  if (descriptor_ < 0) return internal_error("second commit of '", printable(path_), "'");
  int error = ::fsync(descriptor_) != 0 ? errno : 0;
  if (::close(std::exchange(descriptor_, -1)) != 0 && error == 0) error = errno;
  if (error == 0 && ::rename(temporary_.c_str(), path_.c_str()) != 0) error = errno;
  if (error != 0) {
    ::unlink(temporary_.c_str());
    return system_error("cannot write", path_, error);
  }
  // The rename itself lasts only once the folder is on the disk. Some file systems cannot fsync folders (EINVAL): nothing to do.
  int folder = ::open(folder_of(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return system_error("cannot open the folder of", path_, errno);
  error = ::fsync(folder) != 0 && errno != EINVAL && errno != ENOTSUP ? errno : 0;
  ::close(folder);
  return error ? system_error("cannot fsync the folder of", path_, error) : Status();
}

Status write_file_atomic(const std::string& path, std::string_view bytes) {
  ENG_ASSIGN(auto file, AtomicFile::create(path));
  ENG_TRY(file->write(bytes.data(), bytes.size()));
  return file->commit();
}

Result<std::vector<std::string>> list_folder(const std::string& path) {
  DIR* folder = ::opendir(path.c_str());
  if (!folder) return system_error("cannot list", path, errno);
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* entry = ::readdir(folder)) {
    std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
    errno = 0;
  }
  int error = errno;
  ::closedir(folder);
  if (error != 0) return system_error("cannot list", path, error);
  std::sort(names.begin(), names.end());  // std::string compares bytes as unsigned char
  return names;
}

Status make_folder(const std::string& path) {
  for (size_t end = 1; end <= path.size(); ++end) {
    if (end != path.size() && path[end] != '/') continue;
    std::string part = path.substr(0, end);
    if (::mkdir(part.c_str(), 0755) == 0) continue;
    int error = errno;
    FileKind kind = file_info(part).kind;
    if (kind == FileKind::kFolder) continue;
    if (error == EEXIST) return invalid("cannot make the folder '", printable(path), "': '", printable(part), "' is a file");
    return system_error("cannot make the folder", path, error);
  }
  return {};
}

std::string join_path(const std::string& folder, const std::string& name) {
  if (folder.empty()) return name;
  return folder.back() == '/' ? folder + name : folder + "/" + name;
}

void ignore_file_size_signal() { std::signal(SIGXFSZ, SIG_IGN); }

FolderLock::~FolderLock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Result<FolderLock> lock_folder(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return invalid(path, ": cannot be opened: ", std::strerror(errno));
  FolderLock lock(fd);
  if (::flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) return usage_error(path, ": another run is writing there now; give --out another folder, or wait for its end");
  return lock;
}

}  // namespace eng

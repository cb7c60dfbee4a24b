// See export.h.
#include "importers/onnx/export.h"

#include <fcntl.h>
#include <google/protobuf/io/zero_copy_stream_impl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "importers/onnx/export_model.h"
#include "importers/onnx/safe_file.h"
#include "importers/onnx/tensor_proto.h"

namespace eng {
namespace {

constexpr int64_t kInlineBytes = 1900ll << 20;  // more weights than this go to a file of their own
constexpr int64_t kSmallTensor = 1024;          // stays in the model in any case
constexpr int64_t kAlignment = 4096;            // of each tensor in the data file, so that it can be mapped

Status failed(const char* what, const std::string& path) { return invalid("cannot ", what, " '", path, "': ", std::strerror(errno)); }

std::string folder_part(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}
std::string file_part(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

// A file that must not exist yet (O_EXCL also refuses a symlink), removed again unless keep() is called.
class NewFile {
 public:
  static Result<NewFile> create(const std::string& path) {
    NewFile file;
    file.fd_ = FileDescriptor(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666));
    if (!file.fd_.open()) return failed("create", path);
    file.path_ = path;
    return file;
  }
  NewFile(NewFile&& other) noexcept : fd_(std::move(other.fd_)), path_(std::move(other.path_)) { other.path_.clear(); }
  NewFile& operator=(NewFile&&) = delete;
  ~NewFile() {
    if (!path_.empty()) ::unlink(path_.c_str());
  }
  int fd() const { return fd_.get(); }
  const std::string& path() const { return path_; }
  void keep() { path_.clear(); }

  Status write(const void* data, size_t size) {
    const char* p = static_cast<const char*>(data);
    while (size > 0) {
      const ssize_t n = ::write(fd_.get(), p, size);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return failed("write", path_);
      p += n;
      size -= static_cast<size_t>(n);
    }
    return {};
  }
  Status sync() { return ::fsync(fd_.get()) == 0 ? Status() : failed("write", path_); }

 private:
  NewFile() = default;
  FileDescriptor fd_;
  std::string path_;
};

Status sync_folder(const std::string& folder) {
  FileDescriptor fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.open() || ::fsync(fd.get()) != 0) return failed("sync the folder", folder);
  return {};
}

// "<path>.<number>.data" with the first number that is free.
Result<NewFile> create_data_file(const std::string& path) {
  for (int i = 0; i < 10000; ++i) {
    auto file = NewFile::create(cat(path, ".", i, ".data"));
    if (file.ok() || errno != EEXIST) return file;
  }
  return invalid("there are ten thousand data files '", path, ".*.data'; remove those that no model uses");
}

Status append_tensor(NewFile& file, int64_t& position, const std::string& location, const Tensor& t, const std::string& name, onnx::TensorProto& out) {
  if (static_cast<int64_t>(t.byte_count()) < kSmallTensor) return encode_tensor(t, name, out);
  static const char zeros[kAlignment] = {};
  if (position % kAlignment) {
    const int64_t gap = kAlignment - position % kAlignment;
    ENG_TRY(file.write(zeros, static_cast<size_t>(gap)));
    position += gap;
  }
  out.set_name(name);
  out.set_data_type(static_cast<int32_t>(t.dtype()));
  for (int64_t d : t.shape()) out.add_dims(d);
  out.set_data_location(onnx::TensorProto::EXTERNAL);
  const std::pair<const char*, std::string> entries[] = {
      {"location", location}, {"offset", std::to_string(position)}, {"length", std::to_string(t.byte_count())}};
  for (const auto& [key, value] : entries) {
    auto* pair = out.add_external_data();
    pair->set_key(key);
    pair->set_value(value);
  }
  ENG_TRY(file.write(t.bytes(), t.byte_count()));
  position += static_cast<int64_t>(t.byte_count());
  return {};
}

Status write_model(const onnx::ModelProto& model, const std::string& path) {
  if (model.ByteSizeLong() > 0x7fffffff) return unsupported("the model takes ", model.ByteSizeLong(), " bytes, an ONNX file has at most 2 GiB");
  ENG_ASSIGN(NewFile file, NewFile::create(cat(path, ".", ::getpid(), ".tmp")));
  {
    google::protobuf::io::FileOutputStream stream(file.fd(), 1 << 20);
    const bool written = model.SerializeToZeroCopyStream(&stream) && stream.Flush();
    if (!written) {
      errno = stream.GetErrno();
      return failed("write", path);
    }
  }
  ENG_TRY(file.sync());
  if (::rename(file.path().c_str(), path.c_str()) != 0) return failed("put in place", path);
  file.keep();
  return sync_folder(folder_part(path));
}

Status export_to(const Graph& graph, const std::string& path, int64_t inline_bytes) {
  struct stat info;
  if (::lstat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode) && !S_ISLNK(info.st_mode)) return invalid("'", path, "' is there and is not a file");
  onnx::ModelProto model;
  if (initializer_bytes(graph) <= inline_bytes) {
    ENG_TRY(build_model(graph, encode_tensor, model));
    return write_model(model, path);
  }
  ENG_ASSIGN(NewFile data, create_data_file(path));
  int64_t position = 0;
  const std::string location = file_part(data.path());
  ENG_TRY(build_model(graph, [&](const Tensor& t, const std::string& name, onnx::TensorProto& out) {
    return append_tensor(data, position, location, t, name, out);
  }, model));
  ENG_TRY(data.sync());
  ENG_TRY(write_model(model, path));
  data.keep();
  return {};
}

}  // namespace

Result<std::string> export_onnx_bytes(const Graph& graph) {
  try {
    onnx::ModelProto model;
    if (initializer_bytes(graph) > kInlineBytes) return unsupported("the weights take ", initializer_bytes(graph), " bytes, too many for one block of memory; write to a file");
    ENG_TRY(build_model(graph, encode_tensor, model));
    std::string bytes;
    if (!model.SerializeToString(&bytes)) return internal_error("protobuf cannot write the model");
    return bytes;
  } catch (const std::exception& e) {
    return Status(Code::kDevice, cat("the model cannot be written: ", e.what()));
  }
}

Status export_onnx(const Graph& graph, const std::string& path) { return export_onnx_split(graph, path, kInlineBytes); }

Status export_onnx_split(const Graph& graph, const std::string& path, int64_t inline_bytes) {
  try {
    return export_to(graph, path, inline_bytes).in(path);
  } catch (const std::exception& e) {
    return Status(Code::kDevice, cat(path, ": the model cannot be written: ", e.what()));
  }
}

}  // namespace eng

// See import.h. The order is the defence: size, wire scan, parse, structure, then content.
#include "importers/onnx/import.h"

#include <google/protobuf/io/coded_stream.h>

#include <memory>
#include <new>

#include "importers/onnx/check_model.h"
#include "importers/onnx/convert.h"
#include "importers/onnx/safe_file.h"
#include "importers/onnx/wire_scan.h"

namespace eng {
namespace {

struct Bytes {
  std::unique_ptr<char[]> data;
  size_t size = 0;
};

Result<Bytes> read_whole(const std::string& path) {
  ENG_ASSIGN(OpenFile file, open_user_file(path));
  if (file.size > onnx_limits::kModelBytes)
    return invalid("'", path, "' has ", file.size, " bytes; an ONNX file has at most 2 GiB, larger models keep their weights in external data");
  Bytes bytes;
  bytes.size = static_cast<size_t>(file.size);
  bytes.data.reset(new char[bytes.size + 1]);  // not zeroed: it is overwritten at once
  ENG_TRY(read_exactly(file, 0, bytes.data.get(), file.size).in(path));
  return bytes;
}

template <class Message>
bool parse(const void* data, size_t size, Message& message) {
  google::protobuf::io::CodedInputStream stream(static_cast<const uint8_t*>(data), static_cast<int>(size));
  stream.SetRecursionLimit(100);
  return message.ParseFromCodedStream(&stream) && stream.ConsumedEntireMessage();
}

// Frees the file's bytes (`bytes`, where they are ours) as soon as protobuf has its copy.
Result<Graph> import_model(const void* data, size_t size, Bytes* bytes, const std::string& folder, const ImportOptions& options) {
  if (size == 0) return invalid("the file is empty");
  if (size > static_cast<size_t>(onnx_limits::kModelBytes)) return invalid("the model has ", size, " bytes; an ONNX file has at most 2 GiB");
  ENG_ASSIGN(const WireSummary summary, scan_wire(data, size, WireMessage::kModel));
  if (!summary.has_graph) return invalid("there is no graph in it; not an ONNX model, or a damaged one");
  onnx::ModelProto model;
  if (!parse(data, size, model)) return invalid("not an ONNX model, or a damaged one: protobuf cannot read it");
  if (bytes) bytes->data.reset();
  ENG_TRY(check_model(model, options.warnings));
  ExternalData external(folder, options.allow_symlinks);
  OnnxConverter converter(model, external);
  auto graph = converter.run();
  if (options.warnings) options.warnings->insert(options.warnings->end(), converter.warnings.begin(), converter.warnings.end());
  return graph;
}

// The libraries below may throw (protobuf, ONNX, the allocator); nothing of it leaves this file.
template <class T, class Function>
Result<T> guarded(const std::string& where, const Function& function) {
  try {
    auto result = function();
    if (!result.ok() && !where.empty()) return result.status().in(where);
    return result;
  } catch (const std::bad_alloc&) {
    return Status(Code::kDevice, cat(where, ": not enough memory to read the model"));
  } catch (const std::exception& e) {
    return invalid(where, where.empty() ? "" : ": ", e.what());
  }
}

}  // namespace

Result<Graph> import_onnx(const std::string& path, const ImportOptions& options) {
  return guarded<Graph>(path, [&]() -> Result<Graph> {
    ENG_ASSIGN(Bytes bytes, read_whole(path));
    ENG_ASSIGN(const std::string folder, folder_of(path));
    return import_model(bytes.data.get(), bytes.size, &bytes, folder, options);
  });
}

Result<Graph> import_onnx_bytes(const void* data, size_t size, const std::string& model_folder, const ImportOptions& options) {
  return guarded<Graph>("", [&] { return import_model(data, size, nullptr, model_folder, options); });
}

Result<Tensor> read_tensor_proto(const std::string& path) {
  return guarded<Tensor>(path, [&]() -> Result<Tensor> {
    ENG_ASSIGN(const Bytes bytes, read_whole(path));
    ENG_TRY(scan_wire(bytes.data.get(), bytes.size, WireMessage::kTensor).status());
    onnx::TensorProto proto;
    if (!parse(bytes.data.get(), bytes.size, proto)) return invalid("not a TensorProto, or a damaged one");
    return decode_tensor(proto, nullptr);
  });
}

}  // namespace eng

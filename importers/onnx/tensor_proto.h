// TensorProto to Tensor and back: every size is checked before memory is taken. External data comes through ExternalData, which
// checks and reads one descriptor, and gives tensors that name the same bytes the same memory.
// Element types without a fixed size here (strings, complex, 8-bit floats, 4-bit integers) become tensors without content.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "graph/base/tensor.h"
#include "importers/onnx/safe_file.h"

namespace onnx {
class TensorProto;
class SparseTensorProto;
}

namespace eng {

// Kinds of attributes that Attribute has no place for (lists of tensors, types) keep their bytes as a string behind this mark.
inline constexpr const char* kSerializedAttribute = "onnx.AttributeProto:";

class ExternalData {
 public:
  // folder "": external data is refused.
  ExternalData(std::string folder, bool allow_symlinks) : folder_(std::move(folder)), allow_symlinks_(allow_symlinks) {}
  Result<Tensor> read(const onnx::TensorProto& proto, DType type, const Shape& shape);

 private:
  struct Entry {
    std::string location, checksum;
    int64_t offset = 0, length = -1;
  };
  // What has been read of one file, whatever the spellings of its name.
  struct Source {
    std::string sha1;      // empty until asked for
    int64_t loaded = 0;    // bytes handed out; a file of overlapping tensors must not multiply memory
    std::map<std::pair<int64_t, int64_t>, Tensor> tensors;
  };
  static Result<Entry> parse(const onnx::TensorProto& proto);

  std::string folder_;
  bool allow_symlinks_;
  std::map<std::pair<uint64_t, uint64_t>, Source> sources_;  // by device and inode
};

// external may be null: then external data is refused.
Result<Tensor> decode_tensor(const onnx::TensorProto& proto, ExternalData* external);
// Makes a sparse tensor dense. `budget` is what may still be spent on such tensors in this file, in bytes.
Result<Tensor> decode_sparse(const onnx::SparseTensorProto& proto, ExternalData* external, int64_t& budget);
// Fills dims, type and raw data; an error for element types without content.
Status encode_tensor(const Tensor& tensor, const std::string& name, onnx::TensorProto& out);
// A name for messages: cut where it is very long.
std::string shown_name(const std::string& name);

}  // namespace eng

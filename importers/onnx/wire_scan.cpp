// See wire_scan.h.
#include "importers/onnx/wire_scan.h"

#include <array>

#include "importers/onnx/limits.h"

namespace eng {
namespace {

enum M : uint8_t {
  kModel, kGraph, kNode, kAttribute, kTensor, kSegment, kSparse, kValueInfo, kType, kTensorType, kElement, kMapType, kShape, kDim,
  kPair, kAnnotation, kTraining, kFunction, kOpset, kConfiguration, kNodeDevice, kSharding, kIndexMap, kShardedDim, kSimpleDim, kOpaque,
  kMessages,
};
constexpr const char* kNames[kMessages] = {
    "ModelProto", "GraphProto", "NodeProto", "AttributeProto", "TensorProto", "Segment", "SparseTensorProto", "ValueInfoProto",
    "TypeProto", "TypeProto.Tensor", "TypeProto.Sequence", "TypeProto.Map", "TensorShapeProto", "Dimension", "StringStringEntryProto",
    "TensorAnnotation", "TrainingInfoProto", "FunctionProto", "OperatorSetIdProto", "DeviceConfigurationProto",
    "NodeDeviceConfigurationProto", "ShardingSpecProto", "IntIntListEntryProto", "ShardedDimProto", "SimpleShardedDimProto",
    "TypeProto.Opaque"};

// Numbers may be packed; names are limited in length; raw bytes are not counted as structure.
enum class Kind : uint8_t { kVarint, kFixed32, kFixed64, kText, kName, kRaw, kMessage };
struct Row {
  M message;
  uint32_t field;
  Kind kind;
  M child = kMessages;
};
constexpr Kind V = Kind::kVarint, F = Kind::kFixed32, D = Kind::kFixed64, S = Kind::kText, N = Kind::kName, R = Kind::kRaw, X = Kind::kMessage;
constexpr Row kRows[] = {
    {kModel, 1, V}, {kModel, 2, S}, {kModel, 3, S}, {kModel, 4, S}, {kModel, 5, V}, {kModel, 6, S}, {kModel, 7, X, kGraph},
    {kModel, 8, X, kOpset}, {kModel, 14, X, kPair}, {kModel, 20, X, kTraining}, {kModel, 25, X, kFunction}, {kModel, 26, X, kConfiguration},
    {kGraph, 1, X, kNode}, {kGraph, 2, N}, {kGraph, 5, X, kTensor}, {kGraph, 10, S}, {kGraph, 11, X, kValueInfo}, {kGraph, 12, X, kValueInfo},
    {kGraph, 13, X, kValueInfo}, {kGraph, 14, X, kAnnotation}, {kGraph, 15, X, kSparse}, {kGraph, 16, X, kPair},
    {kNode, 1, N}, {kNode, 2, N}, {kNode, 3, N}, {kNode, 4, N}, {kNode, 5, X, kAttribute}, {kNode, 6, S}, {kNode, 7, N}, {kNode, 8, N},
    {kNode, 9, X, kPair}, {kNode, 10, X, kNodeDevice},
    {kAttribute, 1, N}, {kAttribute, 2, F}, {kAttribute, 3, V}, {kAttribute, 4, S}, {kAttribute, 5, X, kTensor}, {kAttribute, 6, X, kGraph},
    {kAttribute, 7, F}, {kAttribute, 8, V}, {kAttribute, 9, S}, {kAttribute, 10, X, kTensor}, {kAttribute, 11, X, kGraph}, {kAttribute, 13, S},
    {kAttribute, 14, X, kType}, {kAttribute, 15, X, kType}, {kAttribute, 20, V}, {kAttribute, 21, N}, {kAttribute, 22, X, kSparse},
    {kAttribute, 23, X, kSparse},
    {kTensor, 1, V}, {kTensor, 2, V}, {kTensor, 3, X, kSegment}, {kTensor, 4, F}, {kTensor, 5, V}, {kTensor, 6, S}, {kTensor, 7, V},
    {kTensor, 8, N}, {kTensor, 9, R}, {kTensor, 10, D}, {kTensor, 11, V}, {kTensor, 12, S}, {kTensor, 13, X, kPair}, {kTensor, 14, V},
    {kTensor, 16, X, kPair},
    {kSegment, 1, V}, {kSegment, 2, V},
    {kSparse, 1, X, kTensor}, {kSparse, 2, X, kTensor}, {kSparse, 3, V},
    {kValueInfo, 1, N}, {kValueInfo, 2, X, kType}, {kValueInfo, 3, S}, {kValueInfo, 4, X, kPair},
    {kType, 1, X, kTensorType}, {kType, 4, X, kElement}, {kType, 5, X, kMapType}, {kType, 6, S}, {kType, 7, X, kOpaque},
    {kType, 8, X, kTensorType}, {kType, 9, X, kElement},
    {kTensorType, 1, V}, {kTensorType, 2, X, kShape}, {kElement, 1, X, kType}, {kMapType, 1, V}, {kMapType, 2, X, kType},
    {kShape, 1, X, kDim}, {kDim, 1, V}, {kDim, 2, N}, {kDim, 3, S}, {kOpaque, 1, S}, {kOpaque, 2, S},
    {kPair, 1, S}, {kPair, 2, S}, {kAnnotation, 1, N}, {kAnnotation, 2, X, kPair},
    {kTraining, 1, X, kGraph}, {kTraining, 2, X, kGraph}, {kTraining, 3, X, kPair}, {kTraining, 4, X, kPair},
    {kFunction, 1, N}, {kFunction, 4, N}, {kFunction, 5, N}, {kFunction, 6, N}, {kFunction, 7, X, kNode}, {kFunction, 8, S},
    {kFunction, 9, X, kOpset}, {kFunction, 10, N}, {kFunction, 11, X, kAttribute}, {kFunction, 12, X, kValueInfo}, {kFunction, 13, N},
    {kFunction, 14, X, kPair},
    {kOpset, 1, N}, {kOpset, 2, V}, {kConfiguration, 1, S}, {kConfiguration, 2, V}, {kConfiguration, 3, S},
    {kNodeDevice, 1, S}, {kNodeDevice, 2, X, kSharding}, {kNodeDevice, 3, V}, {kSharding, 1, S}, {kSharding, 2, V},
    {kSharding, 3, X, kIndexMap}, {kSharding, 4, X, kShardedDim}, {kIndexMap, 1, V}, {kIndexMap, 2, V},
    {kShardedDim, 1, V}, {kShardedDim, 2, X, kSimpleDim}, {kSimpleDim, 1, V}, {kSimpleDim, 2, S}, {kSimpleDim, 3, V},
};
constexpr uint32_t kFields = 27;

// rows[message][field], null where the field is unknown.
const Row* find_row(M message, uint32_t field) {
  static const auto table = [] {
    std::array<std::array<const Row*, kFields>, kMessages> t{};
    for (const Row& row : kRows) t[row.message][row.field] = &row;
    return t;
  }();
  return field < kFields ? table[message][field] : nullptr;
}

class Scanner {
 public:
  explicit Scanner(const uint8_t* begin) : begin_(begin) {}
  WireSummary summary;

  Status message(M type, const uint8_t* p, const uint8_t* end, int depth, int graphs) {
    if (depth > onnx_limits::kMessageDepth) return invalid("messages are nested deeper than ", onnx_limits::kMessageDepth, " levels", at(p));
    if (type == kGraph && ++graphs > onnx_limits::kGraphDepth)
      return invalid("sub-graphs (If, Loop, Scan) are nested deeper than ", onnx_limits::kGraphDepth, " levels", at(p));
    if (type == kNode && ++summary.nodes > onnx_limits::kNodes)
      return invalid("the model has more than ", onnx_limits::kNodes, " nodes, the most that is read");
    ENG_TRY(spend(type == kTensor ? 320 : type == kNode || type == kAttribute || type == kGraph ? 240 : 64, p));
    while (p < end) {
      uint64_t tag = 0;
      ENG_TRY(varint(p, end, tag));
      const uint64_t field = tag >> 3;
      if (field == 0 || field > 0x1fffffff) return invalid("field number ", field, " cannot be", at(p));
      ENG_TRY(value(type, find_row(type, static_cast<uint32_t>(field)), field, tag & 7, p, end, depth, graphs));
    }
    return {};
  }

 private:
  std::string at(const uint8_t* p) const { return cat(" (at byte ", p - begin_, ")"); }

  Status spend(int64_t bytes, const uint8_t* p) {
    summary.structure_bytes += bytes;
    if (summary.structure_bytes <= onnx_limits::kStructureBytes) return {};
    return invalid("the model's structure (names, nodes, shapes, lists of numbers; not raw tensor data) would take more than ",
                   onnx_limits::kStructureBytes >> 20, " MiB of memory", at(p));
  }

  Status varint(const uint8_t*& p, const uint8_t* end, uint64_t& out) {
    out = 0;
    for (int shift = 0; shift < 70; shift += 7) {
      if (p >= end) return invalid("the file ends in the middle of a number; it is truncated or damaged", at(p));
      const uint8_t byte = *p++;
      out |= static_cast<uint64_t>(byte & 127) << (shift & 63);
      if (byte < 128) return {};
    }
    return invalid("a number is longer than 10 bytes; the file is damaged", at(p));
  }

  Status value(M type, const Row* row, uint64_t field, uint64_t wire, const uint8_t*& p, const uint8_t* end, int depth, int graphs) {
    if (row && !fits(row->kind, wire))
      return invalid(kNames[type], " field ", field, " has wire type ", wire, ", which does not fit its declaration; not an ONNX file, or damaged", at(p));
    uint64_t n = 0;
    switch (wire) {
      case 0:
        ENG_TRY(varint(p, end, n));
        return spend(row ? 8 : 16, p);
      case 1:
      case 5:
        n = wire == 1 ? 8 : 4;
        if (static_cast<uint64_t>(end - p) < n) return truncated(type, field, n, p, end);
        p += n;
        return spend(row ? 8 : 16, p);
      case 2:
        ENG_TRY(varint(p, end, n));
        if (static_cast<uint64_t>(end - p) < n) return truncated(type, field, n, p, end);
        ENG_TRY(block(type, row, field, p, p + n, depth, graphs));
        p += n;
        return {};
      default: return invalid(kNames[type], " field ", field, " has wire type ", wire, "; not an ONNX file, or damaged", at(p));
    }
  }

  Status truncated(M type, uint64_t field, uint64_t wanted, const uint8_t* p, const uint8_t* end) const {
    return invalid(kNames[type], " field ", field, " claims ", wanted, " bytes, only ", end - p, " are left; the file is truncated or damaged", at(p));
  }

  static bool fits(Kind kind, uint64_t wire) {
    switch (kind) {
      case Kind::kVarint: return wire == 0 || wire == 2;
      case Kind::kFixed32: return wire == 5 || wire == 2;
      case Kind::kFixed64: return wire == 1 || wire == 2;
      default: return wire == 2;
    }
  }

  Status block(M type, const Row* row, uint64_t field, const uint8_t* p, const uint8_t* end, int depth, int graphs) {
    const int64_t size = end - p;
    if (!row) return spend(size + 16, p);
    switch (row->kind) {
      case Kind::kMessage:
        if (type == kModel && row->child == kGraph) summary.has_graph = true;
        return message(row->child, p, end, depth + 1, graphs);
      case Kind::kRaw: return {};
      case Kind::kName:
        if (size > onnx_limits::kNameBytes)
          return invalid("a name in ", kNames[type], " (field ", field, ") has ", size, " bytes; at most ", onnx_limits::kNameBytes, " are read", at(p));
        return spend(size + 48, p);
      case Kind::kText: return spend(size + 48, p);
      case Kind::kVarint: {
        int64_t count = 0;
        for (const uint8_t* q = p; q < end; ++q) count += *q < 128;
        if (size > 0 && end[-1] >= 128) return invalid("a list of numbers in ", kNames[type], " ends in the middle of one", at(p));
        return spend(count * 8, p);
      }
      case Kind::kFixed32:
      case Kind::kFixed64: {
        const int64_t unit = row->kind == Kind::kFixed32 ? 4 : 8;
        if (size % unit) return invalid("a list of numbers in ", kNames[type], " (field ", field, ") has ", size, " bytes, not a multiple of ", unit, at(p));
        return type == kTensor ? Status() : spend(size, p);  // weights in float_data take what they take in the file
      }
    }
    return {};
  }

  const uint8_t* begin_;
};

}  // namespace

Result<WireSummary> scan_wire(const void* data, size_t size, WireMessage message) {
  const auto* p = static_cast<const uint8_t*>(data);
  Scanner scanner(p);
  ENG_TRY(scanner.message(message == WireMessage::kModel ? kModel : kTensor, p, p + size, 1, 0));
  return scanner.summary;
}

}  // namespace eng

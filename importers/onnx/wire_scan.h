// Walks the bytes of a protobuf message once before protobuf is allowed to allocate for them: damaged or truncated bytes, fields
// of the wrong kind, too deep nesting, too many nodes and memory bombs (a 2-byte field that becomes a 200-byte object) end here.
// The ONNX schema is a table of rows in wire_scan.cpp; a new field of a new ONNX release is one row (unknown fields are skipped).
#pragma once

#include <cstddef>
#include <cstdint>

#include "graph/base/status.h"

namespace eng {

enum class WireMessage : uint8_t { kModel, kTensor };

struct WireSummary {
  int64_t nodes = 0;
  int64_t structure_bytes = 0;  // estimate of what protobuf will allocate, raw data left out
  bool has_graph = false;
};

// Fine where the bytes are a whole message within the limits (limits.h). The error says what is wrong and at which byte.
Result<WireSummary> scan_wire(const void* data, size_t size, WireMessage message);

}  // namespace eng

// The safetensors format: 8 bytes header length (little endian), a JSON header {"name": {"dtype", "shape", "data_offsets"},
// "__metadata__": {string: string}}, then the tensors' bytes, back to back. Checkpoints and weight files are this.
// With checksums, the metadata holds "crc32c.<name>" for each tensor and "crc32c.header", the CRC-32C of length and header with
// that one value written as 00000000: every changed bit of the file is found. Readers of other makers ignore these entries.
#pragma once

#include <map>
#include <string>

#include "graph/base/status.h"
#include "graph/base/tensor.h"

namespace eng {

struct SafetensorsFile {
  std::map<std::string, Tensor> tensors;
  std::map<std::string, std::string> metadata;  // without the crc32c entries
  bool checksummed = false;                     // read: header and every tensor had a checksum, and all were right
};

// Strict: offsets must cover the data exactly, without holes or overlap, and fit dtype and shape. Checksums that are there are
// verified. The error names the file and the tensor.
Result<SafetensorsFile> read_safetensors(const std::string& path);
// Atomic (see engine/io/file.h); tensors are written straight from their memory. Metadata names starting with "crc32c." are ours.
Status write_safetensors(const std::string& path, const SafetensorsFile& file, bool checksums = false);
// Whether a file of this name starts like a safetensors file.
bool looks_like_safetensors(const std::string& path);

}  // namespace eng

// NumPy's files: .npy (one array; versions 1 to 3) and .npz (a zip of them, stored or deflated). Read are bool, signed and unsigned
// integers of 1 to 8 bytes and floats of 2, 4 and 8 bytes, little or big endian, C or Fortran order; anything else (objects,
// strings, records, complex) is refused by name. Nothing is ever unpickled.
#pragma once

#include <cstddef>
#include <map>
#include <string>

#include "graph/base/status.h"
#include "graph/base/tensor.h"

namespace eng {

Result<std::map<std::string, Tensor>> read_npz(const std::string& path);
Result<Tensor> read_npy(const std::string& path);
Status write_npz(const std::string& path, const std::map<std::string, Tensor>& arrays);  // atomic, not compressed
Status write_npy(const std::string& path, const Tensor& array);

}  // namespace eng

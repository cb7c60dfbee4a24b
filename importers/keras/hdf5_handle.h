// Owners for HDF5's handles, and the few reads that weight files need. The library is one for the process: serialised by a mutex.
#pragma once

#include <hdf5.h>

#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "graph/base/status.h"
#include "graph/base/tensor.h"

namespace eng::hdf5 {

template <herr_t (*close)(hid_t)>
class Handle {
 public:
  explicit Handle(hid_t id = -1) : id_(id) {}
  Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, -1)) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(id_, other.id_);
    return *this;
  }
  ~Handle() {
    if (id_ >= 0) close(id_);
  }
  operator hid_t() const { return id_; }  // NOLINT: stands for the id in calls
  bool ok() const { return id_ >= 0; }

 private:
  hid_t id_;
};
using File = Handle<H5Fclose>;
using Group = Handle<H5Gclose>;
using Dataset = Handle<H5Dclose>;
using Attribute = Handle<H5Aclose>;
using Type = Handle<H5Tclose>;
using Space = Handle<H5Sclose>;
using Properties = Handle<H5Pclose>;

// Held while the library is used; its error printing and plug-ins are switched off.
std::unique_lock<std::mutex> lock_library();
Result<File> open_file(const std::string& path);
// Group at a path below `parent`, reached by hard links only.
Result<Group> open_group(hid_t parent, const std::string& path);
// Names of the groups directly below.
Result<std::vector<std::string>> child_groups(hid_t parent);
// Dataset paths below a group, at most three levels deep.
Result<std::vector<std::string>> datasets_below(hid_t parent);
bool has_attribute(hid_t object, const std::string& name);
// A text or a list of texts, of fixed or variable length.
Result<std::vector<std::string>> read_texts(hid_t object, const std::string& name);
// A dataset of numbers as float32.
Result<Tensor> read_floats(hid_t parent, const std::string& path);

}  // namespace eng::hdf5

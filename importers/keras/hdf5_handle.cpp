// See hdf5_handle.h.
#include "importers/keras/hdf5_handle.h"

#include <cstring>
#include <new>

#include "engine/io/file.h"

namespace eng::hdf5 {
namespace {

constexpr hsize_t kMaxTextBytes = 64'000'000, kMaxArrayBytes = hsize_t{16} << 30;

// A soft or external link could lead out of the file, so every part of a path must be a hard link.
Status check_links(hid_t parent, const std::string& path) {
  if (path.empty() || path.size() > 4096 || path.find('\0') != std::string::npos) return invalid("'", printable(path.substr(0, 80)), "' is no name");
  for (size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    std::string part = path.substr(0, end);
    H5L_info_t info;
    if (H5Lget_info(parent, part.c_str(), &info, H5P_DEFAULT) < 0) return not_found("there is no '", printable(part), "'");
    if (info.type != H5L_TYPE_HARD) return invalid("'", printable(part), "' is a soft or external link; links are not followed");
    if (end == std::string::npos) return {};
  }
}

Status check_storage(const Dataset& dataset, const std::string& path) {
  Properties list(H5Dget_create_plist(dataset));
  if (!list.ok()) return invalid("dataset '", printable(path), "' is damaged");
  if (H5Pget_layout(list) == H5D_VIRTUAL || H5Pget_external_count(list) > 0)
    return invalid("dataset '", printable(path), "' keeps its data in another file, which is not read");
  for (int i = 0, n = H5Pget_nfilters(list); i < n; ++i) {
    unsigned flags = 0, config = 0;
    size_t values = 0;
    H5Z_filter_t filter = H5Pget_filter2(list, static_cast<unsigned>(i), &flags, &values, nullptr, 0, nullptr, &config);
    if (filter != H5Z_FILTER_DEFLATE && filter != H5Z_FILTER_SHUFFLE && filter != H5Z_FILTER_FLETCHER32)
      return unsupported("dataset '", printable(path), "' uses HDF5 filter ", filter, "; deflate, shuffle and fletcher32 are supported");
  }
  return {};
}

herr_t note_group(hid_t group, const char* name, const H5L_info_t* info, void* out) {
  if (info->type != H5L_TYPE_HARD) return 0;
  H5O_info_t object;
  if (H5Oget_info_by_name2(group, name, &object, H5O_INFO_BASIC, H5P_DEFAULT) < 0) return 0;
  auto* found = static_cast<std::pair<std::vector<std::string>, std::vector<std::string>>*>(out);
  if (object.type == H5O_TYPE_GROUP) found->first.emplace_back(name);
  if (object.type == H5O_TYPE_DATASET) found->second.emplace_back(name);
  return 0;
}

// {groups, datasets}
Result<std::pair<std::vector<std::string>, std::vector<std::string>>> children(hid_t parent) {
  std::pair<std::vector<std::string>, std::vector<std::string>> found;
  if (H5Literate(parent, H5_INDEX_NAME, H5_ITER_INC, nullptr, note_group, &found) < 0) return invalid("a group's list of names is damaged");
  return found;
}

Status collect_datasets(hid_t parent, const std::string& prefix, int depth, std::vector<std::string>& out) {
  ENG_ASSIGN(auto found, children(parent));
  for (const std::string& name : found.second) out.push_back(prefix + name);
  for (const std::string& name : found.first) {
    if (depth >= 3) continue;
    ENG_ASSIGN(Group group, open_group(parent, name));
    ENG_TRY(collect_datasets(group, prefix + name + "/", depth + 1, out));
  }
  return {};
}

}  // namespace

std::unique_lock<std::mutex> lock_library() {
  static std::mutex mutex;
  std::unique_lock lock(mutex);
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  H5PLset_loading_state(0);
  return lock;
}

Result<File> open_file(const std::string& path) {
  // Only to say what the path is where it is no regular file.
  ENG_ASSIGN(InputFile checked, InputFile::open(path));
  File file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT));
  if (!file.ok()) return invalid("'", printable(path), "' is damaged, or no HDF5 file (", checked.size(), " bytes)");
  return file;
}

Result<Group> open_group(hid_t parent, const std::string& path) {
  ENG_TRY(check_links(parent, path));
  Group group(H5Gopen2(parent, path.c_str(), H5P_DEFAULT));
  if (!group.ok()) return invalid("'", printable(path), "' is no group, or damaged");
  return group;
}

Result<std::vector<std::string>> child_groups(hid_t parent) {
  ENG_ASSIGN(auto found, children(parent));
  return found.first;
}

Result<std::vector<std::string>> datasets_below(hid_t parent) {
  std::vector<std::string> out;
  ENG_TRY(collect_datasets(parent, "", 0, out));
  return out;
}

bool has_attribute(hid_t object, const std::string& name) { return H5Aexists(object, name.c_str()) > 0; }

Result<std::vector<std::string>> read_texts(hid_t object, const std::string& name) {
  Status damaged = invalid("attribute '", name, "' is damaged, or no list of texts");
  Attribute attribute(H5Aopen(object, name.c_str(), H5P_DEFAULT));
  if (!attribute.ok()) return damaged;
  Space space(H5Aget_space(attribute));
  Type type(H5Aget_type(attribute));
  if (!space.ok() || !type.ok()) return damaged;
  hssize_t count = H5Sget_simple_extent_npoints(space);
  if (count < 0) return damaged;
  std::vector<std::string> out;
  if (count == 0) return out;
  if (H5Tget_class(type) != H5T_STRING) {
    return damaged;
  } else if (H5Tis_variable_str(type) > 0) {
    if (static_cast<hsize_t>(count) > kMaxTextBytes / sizeof(char*)) return damaged;
    Type memory(H5Tcopy(type));
    std::vector<char*> texts(static_cast<size_t>(count), nullptr);
    if (H5Aread(attribute, memory, texts.data()) < 0) return damaged;
    for (const char* text : texts) out.emplace_back(text ? text : "");
    H5Dvlen_reclaim(memory, space, H5P_DEFAULT, texts.data());
  } else {
    size_t size = H5Tget_size(type);
    if (size == 0 || static_cast<hsize_t>(count) > kMaxTextBytes / size) return damaged;
    std::vector<char> texts(size * static_cast<size_t>(count));
    if (H5Aread(attribute, type, texts.data()) < 0) return damaged;
    for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
      const char* text = texts.data() + i * size;
      out.emplace_back(text, strnlen(text, size));
      while (H5Tget_strpad(type) == H5T_STR_SPACEPAD && !out.back().empty() && out.back().back() == ' ') out.back().pop_back();
    }
  }
  return out;
}

Result<Tensor> read_floats(hid_t parent, const std::string& path) {
  ENG_TRY(check_links(parent, path));
  Dataset dataset(H5Dopen2(parent, path.c_str(), H5P_DEFAULT));
  if (!dataset.ok()) return invalid("'", printable(path), "' is no dataset, or damaged");
  ENG_TRY(check_storage(dataset, path));
  Type type(H5Dget_type(dataset));
  Space space(H5Dget_space(dataset));
  H5T_class_t kind = type.ok() ? H5Tget_class(type) : H5T_NO_CLASS;
  if (kind != H5T_FLOAT && kind != H5T_INTEGER) return invalid("dataset '", printable(path), "' holds no numbers");
  int rank = space.ok() ? H5Sget_simple_extent_ndims(space) : -1;
  if (rank < 0 || rank > 8) return invalid("dataset '", printable(path), "' has no usable shape");
  hsize_t dims[8] = {};
  H5Sget_simple_extent_dims(space, dims, nullptr);
  Shape shape;
  for (int i = 0; i < rank; ++i) {
    if (dims[i] > kMaxArrayBytes) return invalid("dataset '", printable(path), "' is too big");
    shape.push_back(static_cast<int64_t>(dims[i]));
  }
  Result<int64_t> count = checked_element_count(shape);
  // What is stored bounds what is read: deflate shrinks at most 1032:1, and a dataset without storage has no business here.
  hsize_t stored = H5Dget_storage_size(dataset);
  if (!count.ok() || static_cast<hsize_t>(*count) > kMaxArrayBytes / 4 || static_cast<hsize_t>(*count) > stored * 1032 + 64)
    return invalid("dataset '", printable(path), "' of shape ", shape, " is too big for the ", stored, " bytes that the file holds of it");
  try {
    Tensor tensor(DType::kFloat32, shape);
    if (*count > 0 && H5Dread(dataset, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, tensor.mutable_bytes()) < 0)
      return invalid("dataset '", printable(path), "' is damaged or cut short");
    return tensor;
  } catch (const std::bad_alloc&) {
    return invalid("dataset '", printable(path), "' of shape ", shape, " does not fit in memory");
  }
}

}  // namespace eng::hdf5

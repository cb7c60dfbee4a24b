// See keras.h.
#include "importers/keras/keras.h"

#include <algorithm>

#include "engine/io/file.h"
#include "importers/keras/hdf5_handle.h"

namespace eng {
namespace {

struct Renaming {
  const char* old_name;
  const char* new_name;
};
constexpr Renaming kKeras1[] = {{"W", "kernel"}, {"b", "bias"}, {"running_mean", "moving_mean"}, {"running_std", "moving_variance"}};
constexpr const char* kShortNames[] = {"depthwise_kernel", "pointwise_kernel", "recurrent_kernel", "moving_mean", "moving_variance",
                                       "kernel", "bias", "gamma", "beta", "running_mean", "running_std", "embeddings", "alpha", "W", "b"};

// "block/conv1/kernel:0" -> "kernel"; "conv1_W" -> "kernel"; an unknown name keeps its last part.
std::string short_name(const std::string& weight) {
  std::string name = weight.substr(weight.find_last_of('/') + 1);
  name = name.substr(0, name.find(':'));
  for (const char* known : kShortNames) {
    std::string ending = std::string("_") + known;
    if (name == known || name.ends_with(ending)) {
      name = known;
      break;
    }
  }
  for (const Renaming& row : kKeras1)
    if (name == row.old_name) return row.new_name;
  return name;
}

// Keras splits an attribute that is too long into name0, name1, ...
Result<std::vector<std::string>> read_list(hid_t object, const std::string& name) {
  if (hdf5::has_attribute(object, name)) return hdf5::read_texts(object, name);
  std::vector<std::string> all;
  for (int part = 0; hdf5::has_attribute(object, name + std::to_string(part)); ++part) {
    ENG_ASSIGN(auto piece, hdf5::read_texts(object, name + std::to_string(part)));
    all.insert(all.end(), piece.begin(), piece.end());
  }
  return all;
}
bool has_list(hid_t object, const std::string& name) {
  return hdf5::has_attribute(object, name) || hdf5::has_attribute(object, name + "0");
}

Status read_layer(hid_t parent, const std::string& layer, KerasWeights& out) {
  ENG_ASSIGN(hdf5::Group group, hdf5::open_group(parent, layer));
  std::vector<std::string> names;
  if (has_list(group, "weight_names")) {
    ENG_ASSIGN(names, read_list(group, "weight_names"));
  } else {
    ENG_ASSIGN(names, hdf5::datasets_below(group));
  }
  std::vector<std::pair<std::string, Tensor>> arrays;
  for (const std::string& name : names) {
    ENG_ASSIGN(Tensor tensor, hdf5::read_floats(group, name));
    std::string kind = short_name(name);
    auto same = [&](const auto& entry) { return entry.first == kind; };
    if (std::find_if(arrays.begin(), arrays.end(), same) != arrays.end()) kind = name;  // a layer of layers: keep the whole name
    arrays.emplace_back(kind, std::move(tensor));
  }
  if (!arrays.empty()) out.layers[layer] = std::move(arrays);
  return {};
}

Status read_all(const std::string& path, KerasWeights& out) {
  ENG_ASSIGN(hdf5::File file, hdf5::open_file(path));
  hdf5::Group root;
  if (H5Lexists(file, "model_weights", H5P_DEFAULT) > 0) {
    ENG_ASSIGN(root, hdf5::open_group(file, "model_weights"));
  } else {
    root = hdf5::Group(H5Gopen2(file, "/", H5P_DEFAULT));
    if (!root.ok()) return invalid("its root group is damaged");
  }
  for (hid_t object : {static_cast<hid_t>(root), static_cast<hid_t>(file)}) {
    if (!out.backend.empty() || !hdf5::has_attribute(object, "backend")) continue;
    ENG_ASSIGN(auto texts, hdf5::read_texts(object, "backend"));
    if (!texts.empty()) out.backend = texts[0];
  }
  std::vector<std::string> layers;
  if (has_list(root, "layer_names")) {
    ENG_ASSIGN(layers, read_list(root, "layer_names"));
  } else {
    ENG_ASSIGN(layers, hdf5::child_groups(root));
  }
  for (const std::string& layer : layers) ENG_TRY(read_layer(root, layer, out).in(cat("layer '", printable(layer), "'")));
  if (out.layers.empty()) return invalid("holds no layer with weights");
  return {};
}

}  // namespace

Result<KerasWeights> read_keras_weights(const std::string& path) {
  auto lock = hdf5::lock_library();
  KerasWeights out;
  Status status = read_all(path, out);
  if (!status.ok()) return status.message().find(printable(path)) == std::string::npos ? status.in(printable(path)) : status;
  return out;
}

bool looks_like_hdf5(const std::string& path) {
  Result<InputFile> file = InputFile::open(path);
  char start[8];
  return file.ok() && file->size() >= 8 && file->read(0, start, 8).ok() && std::string_view(start, 8) == std::string_view("\x89HDF\r\n\x1a\n", 8);
}

}  // namespace eng

// See data_source.h.
#include "tools/common/data_source.h"

#include <algorithm>

#include "engine/io/file.h"
#include "graph/passes/bind_shapes.h"
#include "importers/npz/npz.h"

namespace eng::tools {

const Tensor* DataSource::labels() const {
  const auto found = arrays.find("y");
  return found == arrays.end() ? nullptr : &found->second;
}

int64_t DataSource::class_count() const {
  if (folder) return static_cast<int64_t>(index.classes.size());
  const Tensor* y = labels();
  if (!y || is_floating(y->dtype())) return 0;
  int64_t highest = -1;
  for (int64_t label : y->to_ints()) highest = std::max(highest, label);
  return highest + 1;
}

Result<DataSource> open_data(const std::string& path, const std::vector<std::string>* classes, bool unlabelled) {
  DataSource source;
  source.path = path;
  const FileInfo info = file_info(path);
  if (info.kind == FileKind::kMissing) return not_found(path, ": there is no such file or folder");
  source.folder = info.kind == FileKind::kFolder;
  if (source.folder) {
    ENG_ASSIGN(source.index, unlabelled ? index_pictures(path) : classes ? index_classes(path, *classes) : index_classes(path));
    return source;
  }
  if (info.kind != FileKind::kRegular) return invalid(path, ": ", info.problem, "; a folder or a .npz file is wanted");
  auto arrays = read_npz(path);
  if (!arrays.ok() && !path.ends_with(".npz")) {
    return invalid(path, ": is no folder and no .npz file; wanted is a folder of pictures, or a .npz file with an array for each of the model's inputs",
                   path.ends_with(".npy") ? " (put the array into one: numpy.savez)" : "");
  }
  ENG_ASSIGN(source.arrays, std::move(arrays));
  if (!unlabelled && !source.labels()) {
    std::string names;
    for (const auto& [name, array] : source.arrays) names += (names.empty() ? "" : ", ") + name;
    return invalid(path, ": has no array y with the labels; its arrays are: ", names);
  }
  return source;
}

Result<std::vector<SampleSpec>> input_specs(const Graph& model, const DataSource& data, const Preprocessing& p) {
  std::vector<SampleSpec> specs;
  for (ValueId id : model.inputs) {
    const Value& input = model.value(id);
    SampleSpec spec{input.name, input.dtype, {}};
    if (!data.folder && !input.declared_dims.empty() && !is_batched(model, id)) {
      if (!data.arrays.count(input.name)) continue;  // zeros, see graph/passes/bind_shapes.h
      return invalid(data.path, ": the model's input '", input.name, "' has no batch dimension (", Shape(input.declared_dims), "); it is kept at zero, so leave the array out");
    }
    if (data.folder) {
      spec.shape = p.channels_last ? Shape{p.height, p.width, p.channels} : Shape{p.channels, p.height, p.width};
    } else if (const auto array = data.arrays.find(input.name); array != data.arrays.end()) {
      const Shape& shape = array->second.shape();
      if (shape.empty()) return invalid(data.path, ": array ", input.name, " is a single number; the first dimension must be the samples");
      spec.shape.assign(shape.begin() + 1, shape.end());
    } else {
      std::string names;
      for (const auto& [name, t] : data.arrays) names += (names.empty() ? "" : ", ") + name;
      return invalid(data.path, ": no array for the model's input '", input.name, "'; its arrays are: ", names);
    }
    specs.push_back(spec);
  }
  if (specs.empty()) return invalid("the model's output depends on no input");
  return specs;
}

}  // namespace eng::tools

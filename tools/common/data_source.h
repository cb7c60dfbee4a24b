// Data as the commands read them: a folder of class folders, or arrays of a .npz file. Opening finds out what is there (classes, label
// type, sizes); datasets are made when the model's labels are known.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/data/array_dataset.h"
#include "engine/data/class_index.h"
#include "engine/data/image_folder.h"
#include "graph/ir/graph.h"

namespace eng::tools {

struct DataSource {
  std::string path;
  bool folder = false;
  ClassIndex index;                       // folder
  std::map<std::string, Tensor> arrays;   // .npz
  const Tensor* labels() const;           // "y", or null
  bool float_labels() const { return labels() && is_floating(labels()->dtype()); }
  // Classes there are: folders, or the highest integer label + 1; 0 where labels are no classes.
  int64_t class_count() const;
};

// `classes`: class names of the training data for validation data, null for training data. With unlabelled, a folder may hold pictures
// without class folders and arrays need no y.
Result<DataSource> open_data(const std::string& path, const std::vector<std::string>* classes, bool unlabelled = false);

// What the data deliver for each input of `model` (the part that is computed): for pictures its size, for arrays their own shape.
Result<std::vector<SampleSpec>> input_specs(const Graph& model, const DataSource& data, const Preprocessing& preprocessing);

}  // namespace eng::tools

// Weights from Keras's HDF5 files (save_weights and whole models, Keras 1 and 2). Layers are groups, named by the attribute
// layer_names of the root or of the group model_weights; a layer's attribute weight_names lists its datasets, whose order in the
// file does not matter. Only plain arrays inside this file are read: external and soft links, external storage, virtual
// datasets and foreign filters are refused.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "graph/base/status.h"
#include "graph/base/tensor.h"

namespace eng {

struct KerasWeights {
  // Layer -> its arrays in the order of weight_names, as float32, with their short names: kernel, bias, gamma, beta, moving_mean,
  // moving_variance, depthwise_kernel, ... Keras 1's W, b, running_mean and running_std (a variance) are renamed to these.
  std::map<std::string, std::vector<std::pair<std::string, Tensor>>> layers;
  std::string backend;  // "tensorflow", "theano", or empty where the file does not say
};

Result<KerasWeights> read_keras_weights(const std::string& path);
bool looks_like_hdf5(const std::string& path);

}  // namespace eng

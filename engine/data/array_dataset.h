// Arrays in memory as a Dataset: first dimension = samples. Integer labels of rank 1 (or [N,1]) are class numbers, whose form the
// class mode decides; float labels are targets, handed over as float32 in their own shape.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/data/dataset.h"

namespace eng {

struct ArrayOptions {
  ClassMode class_mode = ClassMode::kSparse;  // kNone: labels are not asked for
  int64_t class_count = 0;                    // 0: highest label + 1. A label outside [0, class_count) is an error
  std::string label_name = "y";
  std::string source = "arrays";              // for messages: the file
};

// `wanted` are the graph's inputs in order: name, element type (arrays are converted: any number type to any float, integers to
// wider or narrower integers where every value fits) and sample shape (-1 where free; an empty shape fits anything). An array
// without its input, or an input without its array, is an error that lists both sides.
Result<std::shared_ptr<Dataset>> make_array_dataset(std::map<std::string, Tensor> arrays, const std::vector<SampleSpec>& wanted,
                                                    const ArrayOptions& options);
// The samples [0, size) split off at random: {training, validation}, stratified where labels are classes.
Result<std::pair<std::shared_ptr<Dataset>, std::shared_ptr<Dataset>>> split_dataset(std::shared_ptr<Dataset> all, double fraction,
                                                                                    uint64_t seed);

}  // namespace eng

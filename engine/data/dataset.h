// What a data pipeline reads from: samples by number, each written straight into its row of a batch. A new kind of data is a new
// Dataset; image_folder.h and array_dataset.h are the two there are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/data/class_index.h"
#include "graph/base/status.h"
#include "graph/base/tensor.h"

namespace eng {

// One input or the label of one sample: the batch's tensor is [N] + shape.
struct SampleSpec {
  std::string name;
  DType dtype = DType::kUndefined;
  Shape shape;
};

// Form of class labels: kSparse int64 [N]; kCategorical one-hot float32 [N,classes]; kBinary float32 [N,1], two classes; kNone
// no labels. Float targets of arrays keep their own shape, whatever the mode.
enum class ClassMode : uint8_t { kSparse, kCategorical, kBinary, kNone };
Result<ClassMode> class_mode_from(const std::string& name);
std::string name_of(ClassMode mode);
// Type and shape of a class label in this form, and one label written in it. An error for kBinary with other than two classes.
Result<SampleSpec> class_label_spec(ClassMode mode, int64_t class_count);
void write_class_label(ClassMode mode, int64_t class_count, int64_t label, std::byte* out);

// Which variant of a sample is wanted: augmentation is a function of (seed, epoch, sample).
struct SampleKey {
  uint64_t seed = 0;
  int64_t epoch = 0;
  bool augment = false;
};

class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual int64_t size() const = 0;
  virtual const std::vector<SampleSpec>& inputs() const = 0;
  virtual const SampleSpec& label() const = 0;     // dtype kUndefined where there are no labels
  virtual int64_t class_count() const = 0;         // 0 where labels are not classes
  // Class names in index order; empty where they have none.
  virtual const std::vector<std::string>& classes() const = 0;
  // Writes sample `index`: row i of `inputs` is input i's place, `label` the label's (null where there are none). Called from
  // several threads. An error names the file.
  virtual Status load(int64_t index, const SampleKey& key, std::span<std::byte* const> inputs, std::byte* label) const = 0;
  virtual std::string sample_name(int64_t index) const = 0;  // the file's path, or "row 7 of FILE"
  virtual int64_t class_of(int64_t index) const = 0;         // -1 where labels are not classes
  // Files left out before training began, each once.
  virtual const std::vector<SkippedFile>& skipped() const = 0;
  virtual int64_t samples_per_job() const { return 1; }      // how many a worker should take at once
  virtual std::string describe() const = 0;                  // one line for the log
};

}  // namespace eng

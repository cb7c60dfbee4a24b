// See array_dataset.h.
#include "engine/data/array_dataset.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "engine/data/random.h"
#include "engine/io/file.h"

namespace eng {
namespace {

class ArrayDataset : public Dataset {
 public:
  int64_t size() const override { return size_; }
  const std::vector<SampleSpec>& inputs() const override { return specs_; }
  const SampleSpec& label() const override { return label_; }
  int64_t class_count() const override { return class_count_; }
  const std::vector<std::string>& classes() const override { return names_; }
  std::string sample_name(int64_t index) const override { return cat("row ", index, " of ", source_); }
  int64_t class_of(int64_t index) const override { return class_count_ ? labels_.data<int64_t>()[index] : -1; }
  const std::vector<SkippedFile>& skipped() const override { return skipped_; }
  int64_t samples_per_job() const override { return std::clamp<int64_t>(65536 / std::max<int64_t>(row_bytes_, 1), 1, 256); }
  std::string describe() const override {
    return cat(size_, " samples in ", source_, class_count_ ? cat(", ", class_count_, " classes") : std::string());
  }
  Status load(int64_t index, const SampleKey&, std::span<std::byte* const> inputs, std::byte* label) const override {
    for (size_t i = 0; i < arrays_.size(); ++i) copy_row(arrays_[i], index, inputs[i]);
    if (!label || !labels_.defined()) return {};
    if (class_count_)
      write_class_label(mode_, class_count_, labels_.data<int64_t>()[index], label);
    else
      copy_row(labels_, index, label);
    return {};
  }

  Status set_inputs(std::map<std::string, Tensor>& arrays, const std::vector<SampleSpec>& wanted, const ArrayOptions& options);
  Status set_labels(const Tensor& labels, const ArrayOptions& options);

 private:
  void copy_row(const Tensor& array, int64_t row, std::byte* out) const {
    size_t bytes = array.byte_count() / static_cast<size_t>(size_);
    std::memcpy(out, array.bytes() + static_cast<size_t>(row) * bytes, bytes);
  }

  std::vector<Tensor> arrays_;
  std::vector<SampleSpec> specs_;
  SampleSpec label_;
  Tensor labels_;  // class numbers as int64 [N], or float32 targets
  ClassMode mode_ = ClassMode::kNone;
  int64_t size_ = 0, class_count_ = 0, row_bytes_ = 0;
  std::string source_;
  std::vector<std::string> names_;
  std::vector<SkippedFile> skipped_;
};

Shape row_shape(const Tensor& array) { return Shape(array.shape().begin() + 1, array.shape().end()); }

std::string list_of(const std::vector<SampleSpec>& wanted) {
  std::string out;
  for (const SampleSpec& spec : wanted) out += (out.empty() ? "'" : ", '") + printable(spec.name) + "'";
  return out;
}

// `array` as `type`; integers must fit.
Result<Tensor> convert(const Tensor& array, DType type, const std::string& name) {
  if (array.dtype() == type) return array;
  bool from_number = is_floating(array.dtype()) || is_integer(array.dtype()) || array.dtype() == DType::kBool;
  if (!from_number || (!is_floating(type) && is_floating(array.dtype())))
    return invalid("array '", printable(name), "' holds ", name_of(array.dtype()), ", which does not turn into the wanted ", name_of(type));
  Tensor out(type, array.shape());
  for (int64_t i = 0, n = array.element_count(); i < n; ++i) {
    double value = array.at(i);
    out.set(i, value);
    if (!is_floating(type) && out.at(i) != value)
      return invalid("array '", printable(name), "' holds ", value, " at ", i, ", which does not fit ", name_of(type));
  }
  return out;
}

bool fits(const Shape& got, const Shape& wanted) {
  if (wanted.empty()) return true;
  if (got.size() != wanted.size()) return false;
  for (size_t i = 0; i < got.size(); ++i)
    if (wanted[i] >= 0 && wanted[i] != got[i]) return false;
  return true;
}

Status ArrayDataset::set_inputs(std::map<std::string, Tensor>& arrays, const std::vector<SampleSpec>& wanted, const ArrayOptions& options) {
  source_ = printable(options.source);
  for (const SampleSpec& spec : wanted) {
    auto it = arrays.find(spec.name);
    if (it == arrays.end()) {
      std::string have;
      for (const auto& [name, array] : arrays) have += (have.empty() ? "'" : ", '") + printable(name) + "'";
      return invalid(source_, " has no array '", printable(spec.name), "'; the model's inputs are ", list_of(wanted), ", the file has ",
                     have.empty() ? "none" : have, " (labels are called '", options.label_name, "')");
    }
    const Tensor& array = it->second;
    if (array.shape().empty() || array.shape()[0] == 0)
      return invalid(source_, ": array '", printable(spec.name), "' has shape ", array.shape(), "; the first dimension must count the samples");
    if (arrays_.empty()) size_ = array.shape()[0];
    if (array.shape()[0] != size_)
      return invalid(source_, ": array '", printable(spec.name), "' has ", array.shape()[0], " samples, '", printable(wanted[0].name), "' has ", size_);
    if (!fits(row_shape(array), spec.shape))
      return invalid(source_, ": a sample of array '", printable(spec.name), "' has shape ", row_shape(array), ", the model wants ", spec.shape,
                     " (-1: free)");
    DType type = spec.dtype == DType::kUndefined ? array.dtype() : spec.dtype;
    ENG_ASSIGN(Tensor converted, convert(array, type, spec.name));
    specs_.push_back({spec.name, type, row_shape(array)});
    row_bytes_ += static_cast<int64_t>(converted.byte_count()) / size_;
    arrays_.push_back(std::move(converted));
    arrays.erase(it);
  }
  if (wanted.empty()) return invalid(source_, ": the model has no inputs");
  return {};
}

Status ArrayDataset::set_labels(const Tensor& labels, const ArrayOptions& options) {
  std::string where = cat(source_, ": labels '", printable(options.label_name), "'");
  if (labels.shape().empty() || labels.shape()[0] != size_)
    return invalid(where, " have shape ", labels.shape(), ", there are ", size_, " samples");
  if (is_floating(labels.dtype())) {
    ENG_ASSIGN(labels_, convert(labels, DType::kFloat32, options.label_name));
    label_ = {options.label_name, DType::kFloat32, row_shape(labels)};
    return {};
  }
  if (!is_integer(labels.dtype()) && labels.dtype() != DType::kBool)
    return invalid(where, " hold ", name_of(labels.dtype()), "; wanted class numbers or floats");
  if (element_count(row_shape(labels)) != 1)
    return invalid(where, " have shape ", labels.shape(), "; class numbers are [", size_, "] (one-hot rows are given as floats)");
  ENG_ASSIGN(Tensor numbers, convert(labels, DType::kInt64, options.label_name));
  labels_ = numbers.reshaped({size_});
  class_count_ = options.class_count;
  for (int64_t i = 0; i < size_; ++i) {
    int64_t label = labels_.data<int64_t>()[i];
    if (label < 0 || label > INT32_MAX || (options.class_count && label >= options.class_count))
      return invalid(where, ": row ", i, " has class ", label, "; classes go from 0 to ",
                     options.class_count ? cat(options.class_count - 1) : "the number of the model's outputs - 1");
    if (!options.class_count) class_count_ = std::max(class_count_, label + 1);
  }
  mode_ = options.class_mode;
  ENG_ASSIGN(label_, class_label_spec(mode_, class_count_));
  label_.name = options.label_name;
  return {};
}

// Chosen rows of another dataset, under new numbers.
class Subset : public Dataset {
 public:
  Subset(std::shared_ptr<Dataset> all, std::vector<int64_t> rows) : all_(std::move(all)), rows_(std::move(rows)) {}
  int64_t size() const override { return static_cast<int64_t>(rows_.size()); }
  const std::vector<SampleSpec>& inputs() const override { return all_->inputs(); }
  const SampleSpec& label() const override { return all_->label(); }
  int64_t class_count() const override { return all_->class_count(); }
  const std::vector<std::string>& classes() const override { return all_->classes(); }
  Status load(int64_t i, const SampleKey& key, std::span<std::byte* const> inputs, std::byte* label) const override {
    return all_->load(rows_[static_cast<size_t>(i)], key, inputs, label);
  }
  std::string sample_name(int64_t i) const override { return all_->sample_name(rows_[static_cast<size_t>(i)]); }
  int64_t class_of(int64_t i) const override { return all_->class_of(rows_[static_cast<size_t>(i)]); }
  const std::vector<SkippedFile>& skipped() const override { return all_->skipped(); }
  int64_t samples_per_job() const override { return all_->samples_per_job(); }
  std::string describe() const override { return cat(size(), " of ", all_->describe()); }

 private:
  std::shared_ptr<Dataset> all_;
  std::vector<int64_t> rows_;
};

}  // namespace

Result<std::shared_ptr<Dataset>> make_array_dataset(std::map<std::string, Tensor> arrays, const std::vector<SampleSpec>& wanted,
                                                    const ArrayOptions& options) {
  auto dataset = std::make_shared<ArrayDataset>();
  Tensor labels;
  auto given = arrays.find(options.label_name);
  bool is_input = std::any_of(wanted.begin(), wanted.end(), [&](const SampleSpec& s) { return s.name == options.label_name; });
  if (given != arrays.end() && !is_input) {
    labels = given->second;
    arrays.erase(given);
  }
  ENG_TRY(dataset->set_inputs(arrays, wanted, options));
  if (!arrays.empty())
    return invalid(printable(options.source), ": array '", printable(arrays.begin()->first), "' is no input of the model; its inputs are ",
                   list_of(wanted), ", labels are called '", options.label_name, "'");
  if (options.class_mode != ClassMode::kNone) {
    if (!labels.defined()) return invalid(printable(options.source), " has no labels: array '", options.label_name, "' is missing");
    ENG_TRY(dataset->set_labels(labels, options));
  }
  return std::shared_ptr<Dataset>(dataset);
}

Result<std::pair<std::shared_ptr<Dataset>, std::shared_ptr<Dataset>>> split_dataset(std::shared_ptr<Dataset> all, double fraction,
                                                                                    uint64_t seed) {
  if (!(fraction > 0 && fraction < 1)) return usage_error("the validation split must lie between 0 and 1, got ", fraction);
  std::map<int64_t, std::vector<int64_t>> by_class;
  for (int64_t i = 0; i < all->size(); ++i) by_class[all->class_of(i)].push_back(i);
  std::vector<int64_t> training, validation;
  for (auto& [label, rows] : by_class) {
    CounterRandom random(seed, Purpose::kSplit, 0, label);
    random.shuffle(rows);
    auto taken = static_cast<size_t>(std::llround(fraction * static_cast<double>(rows.size())));
    taken = std::min(taken, rows.size() - 1);
    validation.insert(validation.end(), rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(taken));
    training.insert(training.end(), rows.begin() + static_cast<std::ptrdiff_t>(taken), rows.end());
  }
  if (validation.empty()) return invalid("a validation split of ", fraction, " of ", all->size(), " samples takes none; choose a larger one");
  std::sort(training.begin(), training.end());
  std::sort(validation.begin(), validation.end());
  std::pair<std::shared_ptr<Dataset>, std::shared_ptr<Dataset>> out;
  out.first = std::make_shared<Subset>(all, std::move(training));
  out.second = std::make_shared<Subset>(all, std::move(validation));
  return out;
}

}  // namespace eng

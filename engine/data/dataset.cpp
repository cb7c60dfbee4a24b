// See dataset.h.
#include "engine/data/dataset.h"

namespace eng {
namespace {

struct Row {
  const char* name;
  ClassMode value;
};
constexpr Row kModes[] = {
    {"binary", ClassMode::kBinary}, {"categorical", ClassMode::kCategorical}, {"sparse", ClassMode::kSparse}, {"none", ClassMode::kNone}};

}  // namespace

Result<ClassMode> class_mode_from(const std::string& name) {
  for (const Row& row : kModes)
    if (name == row.name) return row.value;
  return usage_error("class mode '", name, "' is not known; known are binary, categorical, sparse, none");
}
std::string name_of(ClassMode mode) {
  for (const Row& row : kModes)
    if (mode == row.value) return row.name;
  return "?";
}

Result<SampleSpec> class_label_spec(ClassMode mode, int64_t class_count) {
  switch (mode) {
    case ClassMode::kSparse: return SampleSpec{"y", DType::kInt64, {}};
    case ClassMode::kCategorical: return SampleSpec{"y", DType::kFloat32, {class_count}};
    case ClassMode::kBinary:
      if (class_count != 2) return invalid("class mode binary needs 2 classes, there are ", class_count, "; use sparse or categorical");
      return SampleSpec{"y", DType::kFloat32, {1}};
    case ClassMode::kNone: break;
  }
  return SampleSpec{};
}

void write_class_label(ClassMode mode, int64_t class_count, int64_t label, std::byte* out) {
  if (!out) return;
  if (mode == ClassMode::kSparse) *reinterpret_cast<int64_t*>(out) = label;
  if (mode == ClassMode::kBinary) *reinterpret_cast<float*>(out) = static_cast<float>(label);
  if (mode == ClassMode::kCategorical)
    for (int64_t c = 0; c < class_count; ++c) reinterpret_cast<float*>(out)[c] = c == label ? 1.0f : 0.0f;
}

}  // namespace eng

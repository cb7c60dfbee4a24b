// See preprocessing.h.
#include "engine/data/preprocessing.h"

#include <charconv>
#include <cmath>

namespace eng {
namespace {

struct Row {
  const char* name;
  Interpolation value;
};
constexpr Row kInterpolations[] = {
    {"nearest", Interpolation::kNearest}, {"bilinear", Interpolation::kBilinear}, {"bicubic", Interpolation::kBicubic}};

// Shortest text that reads back as the same number.
std::string text_of(double value) {
  char buffer[32];
  auto end = std::to_chars(buffer, buffer + sizeof(buffer), value).ptr;
  return std::string(buffer, end);
}
std::string text_of(const std::vector<double>& values) {
  std::string out;
  for (double v : values) out += (out.empty() ? "" : ",") + text_of(v);
  return out;
}
template <class T>
bool parse(const std::string& text, T& value) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}
bool parse(const std::string& text, std::vector<double>& values) {
  values.clear();
  for (size_t at = 0; !text.empty() && at <= text.size();) {
    size_t comma = std::min(text.find(',', at), text.size());
    double value = 0;
    if (!parse(text.substr(at, comma - at), value)) return false;
    values.push_back(value);
    at = comma + 1;
  }
  return true;
}

}  // namespace

Result<Interpolation> interpolation_from(const std::string& name) {
  for (const Row& row : kInterpolations)
    if (name == row.name) return row.value;
  return usage_error("interpolation '", name, "' is not known; known are nearest, bilinear, bicubic");
}
std::string name_of(Interpolation interpolation) {
  for (const Row& row : kInterpolations)
    if (interpolation == row.value) return row.name;
  return "?";
}

Status Preprocessing::check() const {
  if (height < 1 || width < 1 || height > 65536 || width > 65536 || height * width > 89478485)
    return usage_error("picture size ", height, "x", width, " is not possible: each side from 1 to 65536, at most 89,478,485 pixels");
  if (channels != 1 && channels != 3) return usage_error("pictures have 1 (grey) or 3 (RGB) channels, not ", channels);
  if (!std::isfinite(rescale)) return usage_error("rescale must be a finite number");
  for (const auto* list : {&mean, &std}) {
    if (!list->empty() && list->size() != 1 && list->size() != static_cast<size_t>(channels))
      return usage_error(list == &mean ? "mean" : "std", " has ", list->size(), " values; wanted one, or one for each of the ", channels,
                         " channels");
    for (double v : *list)
      if (!std::isfinite(v) || (list == &std && v == 0)) return usage_error("mean and std must be finite, std not 0");
  }
  return {};
}

std::map<std::string, std::string> Preprocessing::to_metadata() const {
  std::map<std::string, std::string> out;
  out["preprocess.size"] = cat(height, "x", width);
  out["preprocess.color"] = channels == 1 ? "gray" : "rgb";
  out["preprocess.layout"] = channels_last ? "NHWC" : "NCHW";
  out["preprocess.interpolation"] = name_of(interpolation);
  out["preprocess.rescale"] = text_of(rescale);
  if (!mean.empty()) out["preprocess.mean"] = text_of(mean);
  if (!std.empty()) out["preprocess.std"] = text_of(std);
  return out;
}

Result<bool> Preprocessing::from_metadata(const std::map<std::string, std::string>& metadata, Preprocessing& out) {
  auto get = [&](const char* key, const char* fallback) {
    auto it = metadata.find(std::string("preprocess.") + key);
    return it == metadata.end() ? std::string(fallback) : it->second;
  };
  std::string size = get("size", "");
  if (size.empty()) return false;
  size_t x = size.find('x');
  Preprocessing p;
  bool fine = x != std::string::npos && parse(size.substr(0, x), p.height) && parse(size.substr(x + 1), p.width);
  std::string color = get("color", "rgb"), layout = get("layout", "NCHW");
  fine = fine && (color == "rgb" || color == "gray") && (layout == "NCHW" || layout == "NHWC");
  fine = fine && parse(get("rescale", "1"), p.rescale) && parse(get("mean", ""), p.mean) && parse(get("std", ""), p.std);
  Result<Interpolation> interpolation = interpolation_from(get("interpolation", "bilinear"));
  if (!fine || !interpolation.ok()) return invalid("the model's preprocess.* metadata cannot be read (size '", size, "')");
  p.channels = color == "rgb" ? 3 : 1;
  p.channels_last = layout == "NHWC";
  p.interpolation = *interpolation;
  Status check = p.check();
  if (!check.ok()) return invalid("the model's preprocess.* metadata: ", check.message());
  out = p;
  return true;
}

}  // namespace eng

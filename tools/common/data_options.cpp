// See data_options.h.
#include "tools/common/data_options.h"

#include <algorithm>
#include <cstdlib>
#include <thread>

namespace eng::tools {
namespace {

// "HxW" or "N".
Status parse_size(const std::string& text, int64_t& height, int64_t& width) {
  char* end = nullptr;
  height = width = std::strtoll(text.c_str(), &end, 10);
  if (end != text.c_str() && *end == 'x') {
    const char* second = end + 1;
    width = std::strtoll(second, &end, 10);
    if (end == second) height = 0;
  }
  if (*end != '\0' || height < 1 || width < 1 || height > 65536 || width > 65536) return usage_error("--size '", text, "': HxW in pixels is wanted, such as 224x224");
  return {};
}

}  // namespace

std::vector<OptionRow> data_rows(DataOptions& o) {
  return {
      {.name = "--size", .target = &o.size, .value = "HxW", .help = "size in pixels that pictures are resized to", .default_text = "from the model"},
      {.name = "--color", .target = &o.color, .value = "KIND", .help = "rgb or gray", .default_text = "from the model's channels"},
      {.name = "--rescale", .target = &o.rescale, .value = "FACTOR", .help = "grey levels (0-255) are multiplied by it; 1/255 is understood"},
      {.name = "--mean", .target = &o.mean, .value = "M[,M,M]", .help = "subtracted after rescaling, one value or one a channel", .default_text = "0"},
      {.name = "--std", .target = &o.std, .value = "S[,S,S]", .help = "divided by after --mean", .default_text = "1"},
      {.name = "--interpolation", .target = &o.interpolation, .value = "KIND", .help = "how pictures are resized (as Pillow does)",
       .choices = {"nearest", "bilinear", "bicubic"}},
      {.name = "--workers", .target = &o.workers, .value = "N", .help = "threads that load data ahead of the computation",
       .default_text = "one a processor, at most 4", .low = 0, .high = 1024},
      {.name = "--cache", .target = &o.cache, .value = "MIB", .help = "memory for decoded pictures in MiB; what does not fit is decoded in every epoch", .low = 0,
       .high = 1 << 22},
  };
}

const std::vector<std::string>& picture_options() {
  static const std::vector<std::string> names{"--size", "--color", "--rescale", "--mean", "--std", "--interpolation", "--cache", "--shear", "--zoom", "--rotate", "--shift",
                                              "--hflip", "--vflip", "--brightness", "--fill-mode", "--on-bad-image"};
  return names;
}

int64_t worker_count(const DataOptions& o) {
  if (o.workers > 0) return o.workers;
  return std::clamp<int64_t>(std::thread::hardware_concurrency(), 1, 4);
}

Result<Preprocessing> preprocessing_for(const DataOptions& o, const std::string& input, const std::vector<int64_t>& dims) {
  if (dims.size() != 4) {
    return invalid("picture folders need a model with an input of 4 dimensions [N,C,H,W]; input '", input, "' has ", dims.size(), ": give arrays with --data FILE.npz");
  }
  Preprocessing p;
  const auto is_channels = [](int64_t d) { return d == 1 || d == 3; };
  p.channels_last = !is_channels(dims[1]) && is_channels(dims[3]);
  const int64_t channels = p.channels_last ? dims[3] : dims[1], height = p.channels_last ? dims[1] : dims[2], width = p.channels_last ? dims[2] : dims[3];
  if (channels > 0 && !is_channels(channels)) return invalid("input '", input, "' has ", channels, " channels; pictures have 1 or 3");
  p.channels = channels > 0 ? channels : 3;
  if (!o.color.empty()) {
    if (o.color != "rgb" && o.color != "gray" && o.color != "grey") return usage_error("--color '", o.color, "': known are rgb, gray");
    p.channels = o.color == "rgb" ? 3 : 1;
    if (channels > 0 && p.channels != channels) return usage_error("--color ", o.color, ": input '", input, "' has ", channels, " channels");
  }
  if (!o.size.empty()) {
    ENG_TRY(parse_size(o.size, p.height, p.width));
  } else if (height > 0 && width > 0) {
    p.height = height, p.width = width;
  } else {
    return usage_error("input '", input, "' leaves the picture size open: give it with --size HxW");
  }
  ENG_ASSIGN(p.interpolation, interpolation_from(o.interpolation));
  p.rescale = o.rescale;
  p.mean = o.mean;
  p.std = o.std;
  ENG_TRY(p.check());
  return p;
}

}  // namespace eng::tools

// Cases 4 to 6: CMYK JPEGs, 16-bit grey PNGs and palettes with transparency, together in one folder with RGB and grey files. The
// decoded values of each stand in tests/importers/image_decode_test.cpp; here they arrive in batches.
#include <doctest/doctest.h>

#include <cmath>

#include "engine/data/image_folder.h"
#include "engine/data/pipeline.h"
#include "importers/image/decode.h"
#include "tests/importers/pillow_pictures.h"
#include "tests/support/pictures.h"
#include "tests/support/temp_folder.h"

using namespace eng;

TEST_CASE("cases 4, 5 and 6: a mixed folder gives three channels of the right values") {
  TempFolder folder;
  struct { const char* name; Bytes bytes; double rgb[3]; } files[] = {
      {"x/1_cmyk.jpg", from_base64(kMixedInk), {184, 138, 92}},
      {"x/2_cmyk_red.jpg", from_base64(kRedInk), {255, 0, 0}},
      {"x/3_cmyk_progressive.jpg", from_base64(kMixedInkProgressive), {184, 138, 92}},
      {"x/4_rgb.png", solid_png(5, 5, 10, 20, 30), {10, 20, 30}},
      {"x/5_grey.jpg", jpeg_bytes(8, 8, 1, std::vector<uint8_t>(64, 100)), {100, 100, 100}},
      {"x/6_grey16.png", from_base64(kGrey16), {0, 0, 0}},           // first pixel
      {"x/7_palette.png", from_base64(kPalette4), {255, 0, 0}},      // first pixel
  };
  for (auto& file : files) write_bytes(folder / file.name, file.bytes);
  ImageFolderOptions options;
  options.preprocessing.height = options.preprocessing.width = 1;
  options.preprocessing.interpolation = Interpolation::kNearest;
  for (int64_t size : {1, 4}) {
    options.preprocessing.height = options.preprocessing.width = size;
    auto data = *make_image_folder(*index_classes(folder.path()), options,
                                   [](const std::byte* b, size_t n, const DecodeOptions& o, Image& i) { return decode_image(b, n, o, i); });
    REQUIRE(data->size() == 7);
    CHECK(data->skipped().empty());
    PipelineOptions p;
    p.shuffle = false;
    auto pipeline = std::move(*DataPipeline::create(data, p));
    pipeline->begin_epoch(0);
    Batch batch;
    REQUIRE(*pipeline->next(batch));
    REQUIRE(batch.inputs[0].shape() == Shape{7, 3, size, size});
    for (int64_t i = 0; i < (size == 4 ? 7 : 5); ++i)
      for (int64_t c = 0; c < 3; ++c) {
        CAPTURE(files[i].name);
        CHECK(std::abs(batch.inputs[0].at((i * 3 + c) * size * size) - files[i].rgb[c]) <= 2);
      }
  }
}

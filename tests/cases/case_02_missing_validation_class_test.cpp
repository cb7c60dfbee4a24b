// Case 2: validation folders are numbered by training's classes. The model that is exact on colour is written out here: the class
// with the largest channel mean.
#include <doctest/doctest.h>
#include <sys/stat.h>

#include "engine/data/image_folder.h"
#include "engine/data/pipeline.h"
#include "importers/image/decode.h"
#include "tests/support/pictures.h"
#include "tests/support/temp_folder.h"

using namespace eng;

namespace {

int64_t right_answers(const ClassIndex& index) {
  ImageFolderOptions options;
  options.preprocessing.height = options.preprocessing.width = 8;
  options.every_class_needed = false;
  auto data = *make_image_folder(index, options, [](const std::byte* b, size_t n, const DecodeOptions& o, Image& i) { return decode_image(b, n, o, i); });
  PipelineOptions p;
  p.batch_size = 3;
  auto pipeline = std::move(*DataPipeline::create(data, p));
  pipeline->begin_epoch(0);
  Batch batch;
  int64_t right = 0;
  while (*pipeline->next(batch))
    for (int64_t i = 0; i < batch.size; ++i) {
      int64_t best = 0;
      double most = -1;
      for (int64_t c = 0; c < 3; ++c) {
        double sum = 0;
        for (int64_t k = 0; k < 64; ++k) sum += batch.inputs[0].at((i * 3 + c) * 64 + k);
        if (sum > most) {
          most = sum;
          best = c;
        }
      }
      right += best == batch.labels.data<int64_t>()[i];
    }
  return right;
}

}  // namespace

TEST_CASE("case 2: a validation class that is missing or empty shifts no label") {
  TempFolder folder;
  const char* names[3] = {"a", "b", "c"};
  for (int i = 0; i < 4; ++i)
    for (int c = 0; c < 3; ++c) {
      Bytes png = solid_png(8, 8, c == 0 ? 255 : 0, c == 1 ? 255 : 0, c == 2 ? 255 : 0);
      write_bytes(folder / ("train/" + std::string(names[c]) + "/" + std::to_string(i) + ".png"), png);
      if (c != 1) write_bytes(folder / ("val/" + std::string(names[c]) + "/" + std::to_string(i) + ".png"), png);
    }
  ClassIndex train = *index_classes(folder / "train");
  CHECK(train.classes == std::vector<std::string>{"a", "b", "c"});
  CHECK(right_answers(train) == 12);
  CHECK(right_answers(*index_classes(folder / "val", train.classes)) == 8);
  CHECK(mkdir((folder / "val/b").c_str(), 0700) == 0);
  CHECK(right_answers(*index_classes(folder / "val", train.classes)) == 8);

  CHECK(mkdir((folder / "train/d").c_str(), 0700) == 0);
  auto empty = index_classes(folder / "train");
  REQUIRE_FALSE(empty.ok());
  CHECK(empty.status().message().find(folder / "train/d") != std::string::npos);
}

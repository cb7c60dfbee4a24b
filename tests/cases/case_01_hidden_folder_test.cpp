// Case 1: a hidden folder (.ipynb_checkpoints) in the data root is no class, and changes neither labels nor batches.
#include <doctest/doctest.h>
#include <sys/stat.h>

#include "engine/data/image_folder.h"
#include "engine/data/pipeline.h"
#include "importers/image/decode.h"
#include "tests/support/pictures.h"
#include "tests/support/temp_folder.h"

using namespace eng;

namespace {

std::vector<double> two_epochs(const std::string& root, std::vector<std::string>& classes) {
  auto index = index_classes(root);
  REQUIRE(index.ok());
  classes = index->classes;
  ImageFolderOptions options;
  options.preprocessing.height = options.preprocessing.width = 8;
  options.augment.rotation = 15;
  auto data = *make_image_folder(*index, options, [](const std::byte* b, size_t n, const DecodeOptions& o, Image& i) { return decode_image(b, n, o, i); });
  CHECK(data->size() == 8);
  PipelineOptions p;
  p.batch_size = 3;
  p.seed = 4;
  p.augment = true;
  auto pipeline = std::move(*DataPipeline::create(data, p));
  std::vector<double> out;
  Batch batch;
  for (int64_t epoch = 0; epoch < 2; ++epoch) {
    pipeline->begin_epoch(epoch);
    while (*pipeline->next(batch)) {
      for (int64_t i = 0; i < batch.inputs[0].element_count(); ++i) out.push_back(batch.inputs[0].at(i));
      for (int64_t i = 0; i < batch.size; ++i) out.push_back(batch.labels.at(i));
    }
  }
  return out;
}

}  // namespace

TEST_CASE("case 1: hidden folders are no classes and leave every batch as it is") {
  TempFolder folder;
  for (int i = 1; i <= 4; ++i) {
    write_bytes(folder / ("train/cat/" + std::to_string(i) + ".png"), rgb_png(8, 8, noise(192, static_cast<uint64_t>(i))));
    write_bytes(folder / ("train/dog/" + std::to_string(i) + ".png"), rgb_png(8, 8, noise(192, static_cast<uint64_t>(10 + i))));
  }
  std::vector<std::string> classes;
  std::vector<double> clean = two_epochs(folder / "train", classes);
  CHECK(classes == std::vector<std::string>{"cat", "dog"});
  CHECK(mkdir((folder / "train/.ipynb_checkpoints").c_str(), 0700) == 0);
  CHECK(two_epochs(folder / "train", classes) == clean);
  write_bytes(folder / "train/.ipynb_checkpoints/1.png", solid_png(8, 8, 1, 2, 3));
  CHECK(two_epochs(folder / "train", classes) == clean);
  CHECK(classes == std::vector<std::string>{"cat", "dog"});
}

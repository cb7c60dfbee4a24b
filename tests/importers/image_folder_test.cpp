// Picture folders through the real decoders into batches: cache, workers, augmentation, bad files.
#include "engine/data/image_folder.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <cmath>
#include <cstring>
#include <filesystem>

#include "engine/data/pipeline.h"
#include "importers/image/decode.h"
#include "tests/support/pictures.h"
#include "tests/support/temp_folder.h"

using namespace eng;

namespace {

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

DecodeFn decoder() {
  return [](const std::byte* bytes, size_t count, const DecodeOptions& options, Image& image) { return decode_image(bytes, count, options, image); };
}

void fill(const TempFolder& folder) {
  for (int i = 0; i < 5; ++i) {
    write_bytes(folder / ("cat/" + std::to_string(i) + ".png"), rgb_png(20 + i, 17, noise((20 + i) * 17 * 3, static_cast<uint64_t>(i))));
    write_bytes(folder / ("dog/" + std::to_string(i) + ".jpg"), jpeg_bytes(31, 20 + i, 3, noise(31 * (20 + i) * 3, static_cast<uint64_t>(90 + i))));
  }
}

ImageFolderOptions options_of(int64_t size) {
  ImageFolderOptions options;
  options.preprocessing.height = options.preprocessing.width = size;
  options.preprocessing.rescale = 1.0 / 255;
  return options;
}

std::vector<float> epoch_of(std::shared_ptr<Dataset> data, int64_t epoch, int64_t workers, bool augment) {
  PipelineOptions p;
  p.batch_size = 4;
  p.seed = 11;
  p.workers = workers;
  p.augment = augment;
  auto pipeline = std::move(*DataPipeline::create(data, p));
  pipeline->begin_epoch(epoch);
  std::vector<float> out;
  Batch batch;
  while (*pipeline->next(batch)) {
    const float* x = batch.inputs[0].data<float>();
    out.insert(out.end(), x, x + batch.inputs[0].element_count());
    for (int64_t i = 0; i < batch.size; ++i) out.push_back(static_cast<float>(batch.labels.at(i)));
  }
  return out;
}

}  // namespace

TEST_CASE("bits do not depend on workers or on what the cache holds; epochs and augmentation change them") {
  TempFolder folder;
  fill(folder);
  ImageFolderOptions options = options_of(16);
  options.augment.rotation = 10;
  options.augment.shear = 5;
  options.augment.zoom_low = 0.8;
  options.augment.zoom_high = 1.2;
  options.augment.horizontal_flip = true;
  std::vector<float> reference, next_epoch, plain;
  for (int64_t cache : {int64_t{0}, int64_t{16 * 16 * 3 * 4}, int64_t{1} << 20})
    for (int64_t workers : {0, 1, 3}) {
      options.cache_bytes = cache;
      options.workers = workers;
      auto data = *make_image_folder(*index_classes(folder.path()), options, decoder());
      CHECK(data->size() == 10);
      std::vector<float> got = epoch_of(data, 0, workers, true);
      if (reference.empty()) {
        reference = got;
        next_epoch = epoch_of(data, 1, workers, true);
        plain = epoch_of(data, 0, workers, false);
      }
      CHECK(got == reference);
      CHECK(epoch_of(data, 1, workers, true) == next_epoch);
    }
  CHECK(reference != next_epoch);
  CHECK(reference != plain);
  for (float v : plain) CHECK((v >= 0 && v <= 1));
}

TEST_CASE("a cached folder is not read again") {
  TempFolder folder;
  fill(folder);
  auto data = *make_image_folder(*index_classes(folder.path()), options_of(8), decoder());
  std::vector<float> before = epoch_of(data, 0, 2, false);
  std::filesystem::remove_all(folder.path());
  CHECK(epoch_of(data, 0, 2, false) == before);
}

TEST_CASE("a file that breaks after the check is left out and named") {
  TempFolder folder;
  fill(folder);
  ImageFolderOptions options = options_of(8);
  options.cache_bytes = 0;
  auto data = *make_image_folder(*index_classes(folder.path()), options, decoder());
  std::filesystem::remove(folder / "cat/2.png");
  PipelineOptions p;
  p.batch_size = 10;
  auto pipeline = std::move(*DataPipeline::create(data, p));
  pipeline->begin_epoch(0);
  Batch batch;
  REQUIRE(*pipeline->next(batch));
  CHECK(batch.size == 9);
  CHECK(pipeline->skipped_in_epoch() == 1);
  CHECK(contains(pipeline->skipped()[0].path, "cat/2.png"));
}

TEST_CASE("hostile files of a folder are skipped, each named with its reason, or end the run") {
  TempFolder folder;
  fill(folder);
  Bytes png = solid_png(4, 4, 1, 2, 3), jpeg = jpeg_bytes(8, 8, 3, noise(192, 1));
  write_bytes(folder / "cat/png_named.jpg", png);
  write_bytes(folder / "cat/jpeg_named.png", jpeg);
  write_bytes(folder / "cat/empty.png", "");
  write_bytes(folder / "cat/text.png", "just a text");
  write_bytes(folder / "cat/gif.gif", "GIF89a.......");
  write_bytes(folder / "cat/caf\xe9.png", png.substr(0, 40));
  write_bytes(folder / ("cat/" + std::string(246, 'x') + ".png"), png);
  CHECK(mkfifo((folder / "cat/fifo.jpg").c_str(), 0600) == 0);
  auto data = make_image_folder(*index_classes(folder.path()), options_of(8), decoder());
  REQUIRE(data.ok());
  CHECK((*data)->size() == 13);  // wrong names and long names are no obstacle
  std::string all;
  for (const SkippedFile& file : (*data)->skipped()) all += file.path + ": " + file.reason + "\n";
  CHECK((*data)->skipped().size() == 5);
  for (const char* part : {"empty.png", "is empty", "text.png", "neither PNG nor JPEG", "GIF", "fifo.jpg: a FIFO", "caf\\xe9.png"}) {
    CAPTURE(part);
    CHECK(contains(all, part));
  }
  ImageFolderOptions strict = options_of(8);
  strict.on_bad_image = OnBadImage::kFail;
  auto refused = make_image_folder(*index_classes(folder.path()), strict, decoder());
  REQUIRE_FALSE(refused.ok());
  CHECK(contains(refused.status().message(), "cat/fifo.jpg"));
}

TEST_CASE("a class of which no picture can be read is an error, for validation it is not") {
  TempFolder folder;
  fill(folder);
  write_bytes(folder / "emu/1.png", "text");
  ImageFolderOptions options = options_of(8);
  auto refused = make_image_folder(*index_classes(folder.path()), options, decoder());
  REQUIRE_FALSE(refused.ok());
  CHECK(contains(refused.status().message(), "emu"));
  options.every_class_needed = false;
  CHECK(make_image_folder(*index_classes(folder.path()), options, decoder()).ok());
}

TEST_CASE("progress counts every file once; pictures without classes have no labels") {
  TempFolder folder;
  fill(folder);
  ImageFolderOptions options = options_of(8);
  options.class_mode = ClassMode::kNone;
  options.workers = 3;
  int64_t calls = 0, last = 0;
  options.progress = [&](int64_t done, int64_t total) {
    ++calls;
    CHECK(done == last + 1);
    last = done;
    CHECK(total == 10);
  };
  auto data = *make_image_folder(*index_pictures(folder.path()), options, decoder());
  CHECK(calls == 10);
  CHECK(data->label().dtype == DType::kUndefined);
  PipelineOptions p;
  p.shuffle = false;
  auto pipeline = std::move(*DataPipeline::create(data, p));
  pipeline->begin_epoch(0);
  Batch batch;
  REQUIRE(*pipeline->next(batch));
  CHECK_FALSE(batch.labels.defined());
  CHECK(batch.inputs[0].shape() == Shape{10, 3, 8, 8});
}

TEST_CASE("grey, channels-last and binary labels") {
  TempFolder folder;
  fill(folder);
  ImageFolderOptions options = options_of(8);
  options.preprocessing.channels = 1;
  options.preprocessing.channels_last = true;
  options.class_mode = ClassMode::kBinary;
  auto data = *make_image_folder(*index_classes(folder.path()), options, decoder());
  CHECK(data->inputs()[0].shape == Shape{8, 8, 1});
  CHECK(data->label().shape == Shape{1});
  CHECK(data->label().dtype == DType::kFloat32);
}

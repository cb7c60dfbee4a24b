// Case 3: a cut JPEG is skipped with its full path and counted each epoch, and batches are those of the folder without it; or the run
// stops up front.
#include <doctest/doctest.h>

#include <filesystem>

#include "engine/data/image_folder.h"
#include "engine/data/pipeline.h"
#include "importers/image/decode.h"
#include "tests/support/pictures.h"
#include "tests/support/temp_folder.h"

using namespace eng;

namespace {

Result<std::shared_ptr<Dataset>> load(const std::string& root, OnBadImage policy) {
  ImageFolderOptions options;
  options.preprocessing.height = options.preprocessing.width = 32;
  options.on_bad_image = policy;
  options.workers = 2;
  auto index = index_classes(root);
  REQUIRE(index.ok());
  return make_image_folder(*index, options, [](const std::byte* b, size_t n, const DecodeOptions& o, Image& i) { return decode_image(b, n, o, i); });
}

std::vector<double> epoch(const std::shared_ptr<Dataset>& data, int64_t& skipped) {
  PipelineOptions p;
  p.batch_size = 3;
  p.seed = 1;
  auto pipeline = std::move(*DataPipeline::create(data, p));
  std::vector<double> out;
  Batch batch;
  for (int64_t e = 0; e < 2; ++e) {
    pipeline->begin_epoch(e);
    while (*pipeline->next(batch)) {
      out.push_back(static_cast<double>(batch.size));
      for (int64_t i = 0; i < batch.inputs[0].element_count(); ++i) out.push_back(batch.inputs[0].at(i));
    }
    skipped = pipeline->skipped_in_epoch();
  }
  return out;
}

}  // namespace

TEST_CASE("case 3: truncated JPEG") {
  TempFolder folder;
  for (int i = 0; i < 7; ++i)
    write_bytes(folder / ("train/" + std::string(i % 2 ? "cat/" : "dog/") + std::to_string(i) + ".jpg"),
                jpeg_bytes(64, 64, 3, noise(64 * 64 * 3, static_cast<uint64_t>(i))));
  Bytes whole = jpeg_bytes(64, 64, 3, noise(64 * 64 * 3, 99));
  for (size_t cut : {whole.size() / 2, size_t{2}}) {
    std::string bad = folder / "train/cat/bad.jpg";
    write_bytes(bad, whole.substr(0, whole.size() - cut));
    auto data = load(folder / "train", OnBadImage::kSkip);
    REQUIRE(data.ok());
    CHECK((*data)->size() == 7);
    REQUIRE((*data)->skipped().size() == 1);
    CHECK((*data)->skipped()[0].path == bad);
    int64_t skipped = 0, none = 1;
    std::vector<double> with = epoch(*data, skipped);
    CHECK(skipped == 1);

    auto strict = load(folder / "train", OnBadImage::kFail);
    REQUIRE_FALSE(strict.ok());
    CHECK(strict.status().message().find(bad) != std::string::npos);

    std::filesystem::remove(bad);
    CHECK(epoch(*load(folder / "train", OnBadImage::kSkip), none) == with);
    CHECK(none == 0);
  }
}

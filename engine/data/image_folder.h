// Pictures of class folders as a Dataset. When it is made, every file is decoded once, in parallel: files that cannot be are left
// out there and then (named, with the reason) or end the run, so that shuffle and batches are those of the folder without
// them. The decoded and resized pictures are kept in memory as far as the budget goes: the check is the first epoch's work done
// early, and later epochs do not decode again. Bits do not depend on what fits, nor on the number of workers.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/data/augment.h"
#include "engine/data/class_index.h"
#include "engine/data/dataset.h"
#include "engine/data/image.h"
#include "engine/data/preprocessing.h"

namespace eng {

enum class OnBadImage : uint8_t { kSkip, kFail };

struct ImageFolderOptions {
  Preprocessing preprocessing;
  AugmentOptions augment;                   // applied only where SampleKey asks for it
  ClassMode class_mode = ClassMode::kSparse;
  OnBadImage on_bad_image = OnBadImage::kSkip;
  std::string input_name = "x";
  int64_t workers = 1;                      // threads of the check
  int64_t cache_bytes = int64_t{1} << 30;   // budget for decoded pictures
  bool scaled_decode = true;                // see DecodeOptions::target_height
  int64_t max_file_bytes = int64_t{256} << 20;
  bool every_class_needed = true;           // an error where a class has no readable picture left; false for validation
  std::function<void(int64_t done, int64_t total)> progress;  // called from one thread at a time, may be empty
};

Result<std::shared_ptr<Dataset>> make_image_folder(ClassIndex index, ImageFolderOptions options, DecodeFn decode);

}  // namespace eng

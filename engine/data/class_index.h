// The class index of a picture folder: one sub-folder per class, numbered in byte order of the names. Names starting with "."
// are ignored. Validation folders are numbered by the training folder's classes, never by their own. Below a class folder real
// sub-folders are searched too; symbolic links to files and class folders are followed, links to deeper folders are not.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "graph/base/status.h"

namespace eng {

struct SkippedFile {
  std::string path, reason;
};

struct ClassIndex {
  struct Sample {
    std::string path;
    int64_t label = -1;  // -1: no class (index_pictures)
  };
  std::string root;
  std::vector<std::string> classes;
  std::vector<Sample> samples;        // by class, then by path
  std::vector<SkippedFile> skipped;   // named like a picture, but a FIFO, device, folder, broken or looping link
  std::vector<SkippedFile> ignored;   // hidden folders, files of other kinds: worth a line in the log, no more
};

// Training folder. Errors: no folder, no class, a class folder without a picture (names it).
Result<ClassIndex> index_classes(const std::string& root);
// Validation or test folder under given classes. A class may be empty or missing; a folder that is no class is an error.
Result<ClassIndex> index_classes(const std::string& root, const std::vector<std::string>& classes);
// Every picture below a folder, without classes (label -1): for prediction.
Result<ClassIndex> index_pictures(const std::string& root);
// Splits off `fraction` of each class (rounded, at least one stays in training) for validation: {training, validation}. Which
// ones depends on seed and class number only.
Result<std::pair<ClassIndex, ClassIndex>> split_classes(const ClassIndex& index, double fraction, uint64_t seed);

}  // namespace eng

// A folder that is there for one test.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

namespace eng {

class TempFolder {
 public:
  TempFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "eng-test-XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  const std::string& path() const { return path_; }
  // Path of a file in it; missing folders in between are made.
  std::string operator/(const std::string& name) const {
    std::filesystem::path full = std::filesystem::path(path_) / name;
    std::filesystem::create_directories(full.parent_path());
    return full.string();
  }

 private:
  std::string path_;
};

}  // namespace eng

// Reads every source's #include lines and fails where one points against the arrows of docs/architecture.md: which folder may include
// which, what graph/ may include of other libraries, and which heavy libraries stay out of headers. To allow a new arrow, change the table
// here and the picture there.
#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

// Folder -> folders whose headers it may include, besides its own.
const std::map<std::string, std::set<std::string>> kAllowed = {
    {"graph", {}},
    {"backends/abi", {}},
    {"backends/cpu", {"backends/abi"}},
    {"backends/cuda", {"backends/abi"}},
    {"engine", {"graph", "backends/abi"}},
    {"importers", {"engine", "graph"}},
    {"tools", {"importers", "engine", "graph"}},
    {"models", {"importers/onnx", "graph"}},
};

// Libraries that cost seconds to parse or that leak foreign types: never in a header that is seen outside of its own folder.
const std::vector<std::string> kHeavy = {"onnx/", "google/protobuf", "nlohmann/", "Eigen/", "spdlog/", "CLI/", "hdf5", "png.h", "turbojpeg", "dnnl", "oneapi/"};

struct Include {
  std::string file, text;  // file: relative to the checkout
  bool angle;
};

bool starts_with(const std::string& text, const std::string& prefix) { return text.rfind(prefix, 0) == 0; }

// The longest folder of the table that holds the path; "" where none does.
std::string folder_of(const std::string& path) {
  std::string best;
  for (const auto& [folder, allowed] : kAllowed)
    if (starts_with(path, folder + "/") && folder.size() > best.size()) best = folder;
  return best;
}

std::vector<Include> includes_below(const fs::path& root, const std::string& top) {
  std::vector<Include> out;
  if (!fs::exists(root / top)) return out;
  for (const auto& entry : fs::recursive_directory_iterator(root / top)) {
    const std::string extension = entry.path().extension().string();
    if (!std::set<std::string>{".h", ".cpp", ".c", ".cu", ".cuh"}.count(extension)) continue;
    std::ifstream in(entry.path());
    for (std::string line; std::getline(in, line);) {
      size_t i = line.find_first_not_of(" \t");
      if (i == std::string::npos || line[i] != '#') continue;
      i = line.find_first_not_of(" \t", i + 1);
      if (i == std::string::npos || line.compare(i, 7, "include") != 0) continue;
      const size_t open = line.find_first_of("\"<", i + 7);
      if (open == std::string::npos) continue;
      const size_t close = line.find(line[open] == '<' ? '>' : '"', open + 1);
      if (close == std::string::npos) continue;
      out.push_back({fs::relative(entry.path(), root).string(), line.substr(open + 1, close - open - 1), line[open] == '<'});
    }
  }
  return out;
}

// Headers that some file of another folder includes.
std::set<std::string> public_headers(const std::vector<Include>& all) {
  std::set<std::string> out;
  for (const Include& i : all)
    if (!i.angle && fs::path(i.text).parent_path() != fs::path(i.file).parent_path()) out.insert(i.text);
  return out;
}

// What is wrong with one include, or "". `seen_outside`: the including file is a header that other folders include.
std::string judge(const Include& i, bool seen_outside) {
  const std::string from = folder_of(i.file);
  const std::string to = folder_of(i.text);
  if (starts_with(i.text, "tests/")) return "product code includes tests/";
  if (!to.empty()) {
    for (const std::string& allowed : kAllowed.at(from))
      if (starts_with(i.text, allowed + "/")) return "";
    return starts_with(i.text, from + "/") ? "" : from + " may not include " + to;
  }
  const bool standard = i.text.find('/') == std::string::npos && i.text.find('.') == std::string::npos;
  if (from == "graph" && !standard && !starts_with(i.text, "Eigen/")) return "graph/ uses the C++ standard library and Eigen only";
  const bool header = fs::path(i.file).extension() == ".h";
  if (seen_outside && from != "backends/cpu" && from != "backends/cuda")  // a backend's headers are seen by the backend alone
    for (const std::string& heavy : kHeavy)
      if (starts_with(i.text, heavy)) return "a heavy library in a header: declare what is needed, include it in the .cpp";
  if (!i.angle && !header && from != "backends/cuda" && i.text.find('/') == std::string::npos) return "includes are relative to the root of the checkout";
  return "";
}

}  // namespace

TEST_CASE("every include follows the arrows between folders") {
  const char* source = std::getenv("ENGINE_SOURCE");
  REQUIRE_MESSAGE(source != nullptr, "ENGINE_SOURCE must name the checkout; ctest sets it");
  std::vector<Include> all;
  for (const char* top : {"graph", "backends", "engine", "importers", "tools", "models"})
    for (Include& i : includes_below(source, top)) all.push_back(std::move(i));
  REQUIRE(all.size() > 100);
  const std::set<std::string> seen = public_headers(all);
  for (const Include& i : all) {
    if (folder_of(i.file).empty()) FAIL_CHECK(i.file << ": its folder is not in the table of arrows");
    else if (const std::string wrong = judge(i, seen.count(i.file) > 0); !wrong.empty()) FAIL_CHECK(i.file << ": #include " << i.text << ": " << wrong);
  }
}

TEST_CASE("an include against the arrows is found") {
  CHECK(judge({"graph/ops/conv.cpp", "engine/exec/program.h", false}, true) != "");
  CHECK(judge({"graph/ops/conv.cpp", "nlohmann/json.hpp", true}, true) != "");
  CHECK(judge({"backends/cpu/kernels/conv.cpp", "graph/base/status.h", false}, true) != "");
  CHECK(judge({"engine/train/loop.cpp", "importers/onnx/import.h", false}, true) != "");
  CHECK(judge({"engine/exec/program.cpp", "backends/cpu/kernel.h", false}, true) != "");
  CHECK(judge({"importers/onnx/import.h", "onnx/onnx_pb.h", true}, true) != "");
  CHECK(judge({"models/x/generate.cpp", "importers/keras/import.h", false}, true) != "");
  CHECK(judge({"engine/io/file.cpp", "tests/support/temp.h", false}, true) != "");
  CHECK(judge({"engine/io/file.cpp", "file.h", false}, true) != "");
  CHECK(judge({"importers/onnx/convert.h", "onnx/onnx_pb.h", true}, false) == "");  // seen within importers/onnx alone
  CHECK(judge({"importers/onnx/import.cpp", "onnx/onnx_pb.h", true}, false) == "");
  CHECK(judge({"engine/exec/program.cpp", "backends/abi/backend_abi.h", false}, true) == "");
  CHECK(judge({"graph/ops/conv.cpp", "vector", true}, true) == "");
}

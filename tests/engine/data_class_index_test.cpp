// Class folders: which names count, what is skipped, validation under training's numbers, stratified splits.
#include "engine/data/class_index.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <map>
#include <set>

#include "tests/support/pictures.h"
#include "tests/support/temp_folder.h"

using namespace eng;

namespace {
bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }
std::vector<int64_t> labels(const ClassIndex& index) {
  std::vector<int64_t> out;
  for (const auto& sample : index.samples) out.push_back(sample.label);
  return out;
}
void touch(const TempFolder& folder, std::initializer_list<const char*> names) {
  for (const char* name : names) write_bytes(folder / name, "x");
}
}  // namespace

TEST_CASE("classes are sub-folders in byte order; hidden ones and loose files are ignored") {
  TempFolder folder;
  touch(folder, {"dog/1.png", "cat/2.JPG", "cat/1.jpeg", ".ipynb_checkpoints/1.png", "Zebra/z.png", "readme.txt", "cat/.hidden.png", "cat/notes.txt"});
  ClassIndex index = *index_classes(folder.path());
  CHECK(index.classes == std::vector<std::string>{"Zebra", "cat", "dog"});
  CHECK(labels(index) == std::vector<int64_t>{0, 1, 1, 2});
  CHECK(index.samples[1].path == folder / "cat/1.jpeg");
  CHECK(index.ignored.size() == 4);
  CHECK(index.skipped.empty());
}

TEST_CASE("special files named like pictures are skipped by name; links to files and deeper folders work") {
  TempFolder folder;
  touch(folder, {"a/1.png", "a/deep/er/2.png"});
  CHECK(mkfifo((folder / "a/fifo.jpg").c_str(), 0600) == 0);
  CHECK(symlink("loop.jpg", (folder / "a/loop.jpg").c_str()) == 0);
  CHECK(symlink("gone", (folder / "a/broken.png").c_str()) == 0);
  CHECK(mkdir((folder / "a/folder.jpg").c_str(), 0700) == 0);
  CHECK(symlink("1.png", (folder / "a/link.png").c_str()) == 0);
  CHECK(symlink("..", (folder / "a/up").c_str()) == 0);
  ClassIndex index = *index_classes(folder.path());
  CHECK(index.samples.size() == 3);
  std::map<std::string, std::string> reasons;
  for (const SkippedFile& file : index.skipped) reasons[file.path] = file.reason;
  CHECK(reasons.size() == 4);
  CHECK(reasons[folder / "a/fifo.jpg"] == "a FIFO");
  CHECK(reasons[folder / "a/folder.jpg"] == "a folder");
  CHECK(contains(reasons[folder / "a/loop.jpg"], "itself"));
  CHECK(contains(reasons[folder / "a/broken.png"], "nowhere"));
}

TEST_CASE("an empty training class is an error that names the folder") {
  TempFolder folder;
  touch(folder, {"a/1.png", "b/notes.txt"});
  Result<ClassIndex> index = index_classes(folder.path());
  REQUIRE_FALSE(index.ok());
  CHECK(contains(index.status().message(), folder / "b"));
}

TEST_CASE("no folder, no classes, loose pictures: each says so") {
  TempFolder folder;
  CHECK(contains(index_classes(folder.path() + "/none").status().message(), "does not exist"));
  CHECK(contains(index_classes(folder.path()).status().message(), "no class folders"));
  touch(folder, {"1.png", "2.png"});
  CHECK(contains(index_classes(folder.path()).status().message(), "2 pictures"));
  CHECK(contains(index_classes(folder / "1.png").status().message(), "no folder"));
  CHECK(index_pictures(folder.path())->samples.size() == 2);
  CHECK(index_pictures(folder / "1.png")->samples.size() == 1);
}

TEST_CASE("validation takes training's numbers; empty and missing classes are fine, unknown ones are not") {
  TempFolder train, val;
  touch(train, {"a/1.png", "b/1.png", "c/1.png"});
  touch(val, {"a/1.png", "c/1.png"});
  std::vector<std::string> classes = index_classes(train.path())->classes;
  CHECK(labels(*index_classes(val.path(), classes)) == std::vector<int64_t>{0, 2});
  CHECK(mkdir((val / "b").c_str(), 0700) == 0);
  CHECK(labels(*index_classes(val.path(), classes)) == std::vector<int64_t>{0, 2});
  touch(val, {"d/1.png"});
  Result<ClassIndex> bad = index_classes(val.path(), classes);
  REQUIRE_FALSE(bad.ok());
  CHECK(contains(bad.status().message(), val / "d"));
  CHECK(contains(bad.status().message(), "a, b, c"));
}

TEST_CASE("a split is stratified, complete, disjoint, and repeats with the seed") {
  TempFolder folder;
  for (int i = 0; i < 20; ++i) write_bytes(folder / ("a/" + std::to_string(i) + ".png"), "x");
  for (int i = 0; i < 10; ++i) write_bytes(folder / ("b/" + std::to_string(i) + ".png"), "x");
  touch(folder, {"c/1.png"});
  ClassIndex all = *index_classes(folder.path());
  auto [train, val] = *split_classes(all, 0.2, 1);
  std::map<int64_t, int> count;
  for (const auto& sample : val.samples) ++count[sample.label];
  CHECK(count[0] == 4);
  CHECK(count[1] == 2);
  CHECK(count[2] == 0);  // the only picture of a class stays in training
  std::set<std::string> paths;
  for (const ClassIndex* part : {&train, &val})
    for (const auto& sample : part->samples) paths.insert(sample.path);
  CHECK(paths.size() == all.samples.size());
  CHECK(train.samples.size() + val.samples.size() == all.samples.size());
  auto same = split_classes(all, 0.2, 1), other = split_classes(all, 0.2, 2);
  auto list = [](const ClassIndex& index) {
    std::vector<std::string> out;
    for (const auto& sample : index.samples) out.push_back(sample.path);
    return out;
  };
  CHECK(list(same->second) == list(val));
  CHECK(list(other->second) != list(val));
  CHECK_FALSE(split_classes(all, 0, 1).ok());
  CHECK_FALSE(split_classes(all, 0.01, 1).ok());
}

TEST_CASE("names of 250 bytes and names that are no UTF-8 are found") {
  TempFolder folder;
  std::string name(246, 'x');
  write_bytes(folder / ("a/" + name + ".png"), "x");
  write_bytes(folder / "a/caf\xe9.png", "x");
  CHECK(index_classes(folder.path())->samples.size() == 2);
}

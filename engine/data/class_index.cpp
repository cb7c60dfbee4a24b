// See class_index.h.
#include "engine/data/class_index.h"

#include <algorithm>
#include <cmath>

#include "engine/data/random.h"
#include "engine/io/file.h"

namespace eng {
namespace {

constexpr int kMaxDepth = 32;
// Names that promise a picture. Formats that cannot be decoded are in the list too: such a file is then named as skipped, not lost.
constexpr const char* kPictureEndings[] = {".png", ".jpg", ".jpeg", ".jpe", ".jfif", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm"};

bool named_like_a_picture(const std::string& name) {
  size_t dot = name.find_last_of('.');
  if (dot == std::string::npos) return false;
  std::string ending = name.substr(dot);
  for (char& c : ending)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return std::find(std::begin(kPictureEndings), std::end(kPictureEndings), ending) != std::end(kPictureEndings);
}

// Pictures below `folder`, depth first, names in byte order.
Status collect(const std::string& folder, int64_t label, int depth, ClassIndex& index) {
  ENG_ASSIGN(std::vector<std::string> names, list_folder(folder));
  for (const std::string& name : names) {
    std::string path = join_path(folder, name);
    if (name[0] == '.') {
      index.ignored.push_back({path, "its name starts with a dot"});
      continue;
    }
    FileInfo info = file_info(path);
    bool picture = named_like_a_picture(name);
    if (info.kind == FileKind::kRegular) {
      if (picture)
        index.samples.push_back({path, label});
      else
        index.ignored.push_back({path, "not named like a picture"});
    } else if (info.kind == FileKind::kFolder && !picture && !info.is_link && depth < kMaxDepth) {
      ENG_TRY(collect(path, label, depth + 1, index));
    } else {
      std::string reason = info.kind != FileKind::kFolder ? info.problem : info.is_link ? "a link to a folder" : picture ? "a folder" : "nested too deep";
      (picture ? index.skipped : index.ignored).push_back({path, reason});
    }
  }
  return {};
}

// The root's entries: class folders (links followed), the rest into ignored or skipped.
Result<std::vector<std::string>> class_folders(ClassIndex& index, int64_t& loose_pictures) {
  FileInfo root = file_info(index.root);
  if (root.kind == FileKind::kMissing) return not_found("the picture folder '", printable(index.root), "' does not exist");
  if (root.kind != FileKind::kFolder) return invalid("'", printable(index.root), "' is no folder; wanted a folder with one sub-folder per class");
  ENG_ASSIGN(std::vector<std::string> names, list_folder(index.root));
  std::vector<std::string> folders;
  loose_pictures = 0;
  for (const std::string& name : names) {
    std::string path = join_path(index.root, name);
    FileInfo info = file_info(path);
    if (name[0] == '.') {
      index.ignored.push_back({path, "its name starts with a dot"});
    } else if (info.kind == FileKind::kFolder) {
      folders.push_back(name);
    } else {
      loose_pictures += named_like_a_picture(name);
      index.ignored.push_back({path, info.problem.empty() ? "not in a class folder" : info.problem});
    }
  }
  return folders;
}

Status no_classes(const ClassIndex& index, int64_t loose_pictures) {
  std::string hint = loose_pictures ? cat(" (", loose_pictures, " pictures lie in it directly: they have no class)") : std::string();
  return invalid("'", printable(index.root), "' has no class folders", hint, "; wanted one sub-folder per class: ", printable(index.root),
                 "/CLASS/picture.jpg");
}

}  // namespace

Result<ClassIndex> index_classes(const std::string& root) {
  ClassIndex index;
  index.root = root;
  int64_t loose = 0;
  ENG_ASSIGN(index.classes, class_folders(index, loose));
  if (index.classes.empty()) return no_classes(index, loose);
  for (size_t label = 0; label < index.classes.size(); ++label) {
    size_t before = index.samples.size();
    std::string folder = join_path(root, index.classes[label]);
    ENG_TRY(collect(folder, static_cast<int64_t>(label), 0, index));
    if (index.samples.size() == before)
      return invalid("the class folder '", printable(folder), "' holds no picture; add some, or remove the folder so that it is no class");
  }
  return index;
}

Result<ClassIndex> index_classes(const std::string& root, const std::vector<std::string>& classes) {
  ClassIndex index;
  index.root = root;
  index.classes = classes;
  int64_t loose = 0;
  ENG_ASSIGN(std::vector<std::string> folders, class_folders(index, loose));
  if (folders.empty()) return no_classes(index, loose);
  for (const std::string& folder : folders) {
    if (std::find(classes.begin(), classes.end(), folder) != classes.end()) continue;
    std::string known;
    for (size_t i = 0; i < classes.size() && i < 20; ++i) known += (i ? ", " : "") + printable(classes[i]);
    return invalid("'", printable(join_path(root, folder)), "' is no class of the training folder; its ", classes.size(), " classes are ", known,
                   classes.size() > 20 ? ", ..." : "");
  }
  for (size_t label = 0; label < classes.size(); ++label)
    if (std::find(folders.begin(), folders.end(), classes[label]) != folders.end())
      ENG_TRY(collect(join_path(root, classes[label]), static_cast<int64_t>(label), 0, index));
  if (index.samples.empty()) return invalid("'", printable(root), "' holds no picture in any class folder");
  return index;
}

Result<ClassIndex> index_pictures(const std::string& root) {
  ClassIndex index;
  index.root = root;
  if (file_info(root).kind == FileKind::kRegular) {
    index.samples.push_back({root, -1});
    return index;
  }
  ENG_TRY(collect(root, -1, 0, index));
  if (index.samples.empty()) return invalid("'", printable(root), "' holds no picture");
  return index;
}

Result<std::pair<ClassIndex, ClassIndex>> split_classes(const ClassIndex& index, double fraction, uint64_t seed) {
  if (!(fraction > 0 && fraction < 1)) return usage_error("the validation split must lie between 0 and 1, got ", fraction);
  std::pair<ClassIndex, ClassIndex> out;
  out.first = index;
  out.first.samples.clear();
  out.second.root = index.root;
  out.second.classes = index.classes;
  size_t begin = 0;
  while (begin < index.samples.size()) {
    size_t end = begin;
    int64_t label = index.samples[begin].label;
    while (end < index.samples.size() && index.samples[end].label == label) ++end;
    std::vector<size_t> order(end - begin);
    for (size_t i = 0; i < order.size(); ++i) order[i] = begin + i;
    CounterRandom random(seed, Purpose::kSplit, 0, label);
    random.shuffle(order);
    auto taken = static_cast<size_t>(std::llround(fraction * static_cast<double>(order.size())));
    taken = std::min(taken, order.size() - 1);
    std::sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(taken));
    std::sort(order.begin() + static_cast<std::ptrdiff_t>(taken), order.end());
    for (size_t i = 0; i < order.size(); ++i) (i < taken ? out.second : out.first).samples.push_back(index.samples[order[i]]);
    begin = end;
  }
  if (out.second.samples.empty())
    return invalid("a validation split of ", fraction, " of '", printable(index.root), "' takes no picture; choose a larger one");
  return out;
}

}  // namespace eng

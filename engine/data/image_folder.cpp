// See image_folder.h.
#include "engine/data/image_folder.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <thread>

#include "engine/data/resize.h"
#include "engine/data/transform.h"
#include "engine/io/file.h"

namespace eng {
namespace {

// A thread's buffers, so that no picture allocates.
struct Scratch {
  std::vector<std::byte> bytes;
  Image image;
  std::vector<uint8_t> resized;
  Resizer resizer;
};
Scratch& scratch() {
  thread_local Scratch own;
  return own;
}

class ImageFolder : public Dataset {
 public:
  ImageFolder(ClassIndex index, ImageFolderOptions options, DecodeFn decode)
      : index_(std::move(index)), options_(std::move(options)), decode_(std::move(decode)),
        renderer_(options_.preprocessing, options_.augment.fill_mode, options_.augment.fill_value) {
    const Preprocessing& p = options_.preprocessing;
    pixel_bytes_ = p.height * p.width * p.channels;
    Shape shape = p.channels_last ? Shape{p.height, p.width, p.channels} : Shape{p.channels, p.height, p.width};
    inputs_ = {{options_.input_name, DType::kFloat32, shape}};
  }

  Status prepare();
  int64_t size() const override { return static_cast<int64_t>(index_.samples.size()); }
  const std::vector<SampleSpec>& inputs() const override { return inputs_; }
  const SampleSpec& label() const override { return label_; }
  int64_t class_count() const override { return static_cast<int64_t>(index_.classes.size()); }
  const std::vector<std::string>& classes() const override { return index_.classes; }
  Status load(int64_t index, const SampleKey& key, std::span<std::byte* const> inputs, std::byte* label) const override;
  std::string sample_name(int64_t index) const override { return index_.samples[static_cast<size_t>(index)].path; }
  int64_t class_of(int64_t index) const override { return index_.samples[static_cast<size_t>(index)].label; }
  const std::vector<SkippedFile>& skipped() const override { return index_.skipped; }
  int64_t samples_per_job() const override { return std::clamp<int64_t>(32768 / pixel_bytes_, 1, 16); }
  std::string describe() const override;

 private:
  // The picture at the network's size; `out` has room for it.
  Status decode(const std::string& path, uint8_t* out) const;
  void check_range(std::atomic<size_t>& next, std::vector<std::string>& reasons, std::mutex& mutex, int64_t& done);
  Status sort_out(const std::vector<std::string>& reasons);

  ClassIndex index_;
  ImageFolderOptions options_;
  DecodeFn decode_;
  Renderer renderer_;
  int64_t pixel_bytes_ = 0;
  std::vector<SampleSpec> inputs_;
  SampleSpec label_;
  std::vector<uint8_t> cache_;         // slot s at s * pixel_bytes_
  std::vector<int64_t> slot_;          // of each sample; -1: not kept
};

Status ImageFolder::decode(const std::string& path, uint8_t* out) const {
  Scratch& own = scratch();
  const Preprocessing& p = options_.preprocessing;
  ENG_TRY(read_file_into(path, options_.max_file_bytes, own.bytes));
  DecodeOptions how;
  how.channels = p.channels;
  if (options_.scaled_decode && p.interpolation != Interpolation::kNearest) {
    how.target_height = p.height;
    how.target_width = p.width;
  }
  Status status = decode_(own.bytes.data(), own.bytes.size(), how, own.image);
  if (!status.ok()) return Status(status.code(), cat("'", printable(path), "': ", status.message()));
  own.resizer.run(own.image, p.height, p.width, p.interpolation, out);
  return {};
}

// A checking thread: takes samples until there are none.
void ImageFolder::check_range(std::atomic<size_t>& next, std::vector<std::string>& reasons, std::mutex& mutex, int64_t& done) {
  std::vector<uint8_t>& resized = scratch().resized;
  for (size_t i = next++; i < index_.samples.size(); i = next++) {
    resized.resize(static_cast<size_t>(pixel_bytes_));
    uint8_t* out = slot_[i] >= 0 ? cache_.data() + slot_[i] * pixel_bytes_ : resized.data();
    Status status;
    try {
      status = decode(index_.samples[i].path, out);
    } catch (const std::bad_alloc&) {
      status = invalid("'", printable(index_.samples[i].path), "': no memory to decode it");
    }
    if (!status.ok()) reasons[i] = status.message();
    std::lock_guard lock(mutex);
    ++done;
    if (options_.progress) options_.progress(done, static_cast<int64_t>(index_.samples.size()));
  }
}

Status ImageFolder::prepare() {
  if (options_.class_mode != ClassMode::kNone) {
    ENG_ASSIGN(label_, class_label_spec(options_.class_mode, class_count()));
    for (const auto& sample : index_.samples)
      if (sample.label < 0) return internal_error("pictures without classes need class mode none");
  }
  size_t count = index_.samples.size();
  auto kept = static_cast<size_t>(std::max<int64_t>(options_.cache_bytes, 0) / pixel_bytes_);
  kept = std::min(kept, count);
  slot_.assign(count, -1);
  for (size_t i = 0; i < kept; ++i) slot_[i] = static_cast<int64_t>(i);
  cache_.resize(kept * static_cast<size_t>(pixel_bytes_));

  std::vector<std::string> reasons(count);
  std::atomic<size_t> next{0};
  std::mutex mutex;
  int64_t done = 0;
  std::vector<std::thread> threads;
  for (int64_t t = 1; t < std::min<int64_t>(options_.workers, static_cast<int64_t>(count)); ++t)
    threads.emplace_back([&] { check_range(next, reasons, mutex, done); });
  check_range(next, reasons, mutex, done);
  for (std::thread& thread : threads) thread.join();
  return sort_out(reasons);
}

// Drops the samples that have a reason to be dropped, or makes an error of the first.
Status ImageFolder::sort_out(const std::vector<std::string>& reasons) {
  if (options_.on_bad_image == OnBadImage::kFail) {
    if (!index_.skipped.empty())
      return invalid("'", printable(index_.skipped[0].path), "' is no picture file: ", index_.skipped[0].reason, " (--on-bad-image skip goes on without it)");
    for (const std::string& reason : reasons)
      if (!reason.empty()) return invalid(reason, " (--on-bad-image skip goes on without it)");
  }
  std::vector<ClassIndex::Sample> good;
  std::vector<int64_t> slots, per_class(index_.classes.size(), 0);
  for (size_t i = 0; i < reasons.size(); ++i) {
    ClassIndex::Sample& sample = index_.samples[i];
    if (!reasons[i].empty()) {
      index_.skipped.push_back({sample.path, reasons[i]});
      continue;
    }
    if (sample.label >= 0) ++per_class[static_cast<size_t>(sample.label)];
    slots.push_back(slot_[i]);
    good.push_back(std::move(sample));
  }
  index_.samples = std::move(good);
  slot_ = std::move(slots);
  if (index_.samples.empty())
    return invalid("'", printable(index_.root), "' holds no picture that can be read", index_.skipped.empty() ? "" : "; the first: ",
                   index_.skipped.empty() ? "" : index_.skipped[0].reason);
  for (size_t c = 0; c < per_class.size() && options_.every_class_needed; ++c)
    if (per_class[c] == 0)
      return invalid("the class folder '", printable(join_path(index_.root, index_.classes[c])), "' holds no picture that can be read");
  return {};
}

Status ImageFolder::load(int64_t index, const SampleKey& key, std::span<std::byte* const> inputs, std::byte* label) const {
  auto i = static_cast<size_t>(index);
  const uint8_t* pixels = nullptr;
  if (slot_[i] >= 0) {
    pixels = cache_.data() + slot_[i] * pixel_bytes_;
  } else {
    std::vector<uint8_t>& resized = scratch().resized;
    resized.resize(static_cast<size_t>(pixel_bytes_));
    ENG_TRY(decode(index_.samples[i].path, resized.data()));
    pixels = resized.data();
  }
  Augmentation augmentation;
  if (key.augment && options_.augment.any()) {
    CounterRandom random(key.seed, Purpose::kAugment, key.epoch, index);
    augmentation = draw(options_.augment, options_.preprocessing.height, options_.preprocessing.width, random);
  }
  renderer_.render(pixels, augmentation, reinterpret_cast<float*>(inputs[0]));
  write_class_label(options_.class_mode, class_count(), index_.samples[i].label, label);
  return {};
}

std::string ImageFolder::describe() const {
  const Preprocessing& p = options_.preprocessing;
  size_t kept = pixel_bytes_ ? cache_.size() / static_cast<size_t>(pixel_bytes_) : 0;
  return cat(size(), " pictures of ", index_.classes.size(), " class", index_.classes.size() == 1 ? ", " : "es, ", index_.skipped.size(),
             " skipped, resized to ", p.height, "x", p.width, "x", p.channels, kept >= index_.samples.size() ? ", all kept in memory" :
             cat(", ", std::min(kept, index_.samples.size()), " kept in memory"));
}

}  // namespace

Result<std::shared_ptr<Dataset>> make_image_folder(ClassIndex index, ImageFolderOptions options, DecodeFn decode) {
  ENG_TRY(options.preprocessing.check());
  ENG_TRY(options.augment.check());
  auto folder = std::make_shared<ImageFolder>(std::move(index), std::move(options), std::move(decode));
  ENG_TRY(folder->prepare());
  return std::shared_ptr<Dataset>(folder);
}

}  // namespace eng

// The pipeline: order, short batches, resuming, workers that change nothing, failures, and arrays as data.
#include "engine/data/pipeline.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <set>
#include <stdexcept>
#include <thread>

#include "engine/data/array_dataset.h"

using namespace eng;

namespace {

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::shared_ptr<Dataset> rows(int64_t count) {
  std::map<std::string, Tensor> arrays;
  Tensor x(DType::kFloat32, {count, 2}), y(DType::kInt64, {count});
  for (int64_t i = 0; i < count; ++i) {
    x.set(2 * i, static_cast<double>(i));
    x.set(2 * i + 1, static_cast<double>(-i));
    y.set(i, static_cast<double>(i % 3));
  }
  arrays["x"] = x;
  arrays["y"] = y;
  return *make_array_dataset(arrays, {{"x", DType::kFloat32, {2}}}, {});
}

std::vector<double> epoch_of(DataPipeline& pipeline, int64_t epoch, int64_t first = 0, std::vector<int64_t>* sizes = nullptr) {
  std::vector<double> out;
  Batch batch;
  pipeline.begin_epoch(epoch, first);
  while (true) {
    Result<bool> more = pipeline.next(batch);
    REQUIRE(more.ok());
    if (!*more) return out;
    if (sizes) sizes->push_back(batch.size);
    CHECK(batch.inputs[0].shape() == Shape{batch.size, 2});
    CHECK(batch.labels.shape() == Shape{batch.size});
    for (int64_t i = 0; i < batch.size; ++i) {
      out.push_back(batch.inputs[0].at(2 * i));
      CHECK(batch.labels.data<int64_t>()[i] == static_cast<int64_t>(out.back()) % 3);
      CHECK(batch.inputs[0].at(2 * i + 1) == -out.back());
    }
  }
}

// A dataset that fails, or throws, at some samples; waits a little at others, so that workers finish out of order.
class Rough : public Dataset {
 public:
  explicit Rough(int64_t n) : n_(n) {}
  int64_t size() const override { return n_; }
  const std::vector<SampleSpec>& inputs() const override { return specs_; }
  const SampleSpec& label() const override { return none_; }
  int64_t class_count() const override { return 0; }
  const std::vector<std::string>& classes() const override { return names_; }
  std::string sample_name(int64_t i) const override { return "file-" + std::to_string(i); }
  int64_t class_of(int64_t) const override { return -1; }
  const std::vector<SkippedFile>& skipped() const override { return skipped_; }
  std::string describe() const override { return "rough"; }
  Status load(int64_t i, const SampleKey&, std::span<std::byte* const> in, std::byte*) const override {
    ++loads;
    if (i % 3 == 0) std::this_thread::sleep_for(std::chrono::microseconds(200));
    if (throws.count(i)) throw std::runtime_error("thrown");
    if (fails.count(i)) return invalid("'file-", i, "' is bad");
    *reinterpret_cast<int64_t*>(in[0]) = i;
    return {};
  }
  std::set<int64_t> fails, throws;
  mutable std::atomic<int64_t> loads{0};

 private:
  int64_t n_;
  std::vector<SampleSpec> specs_{{"x", DType::kInt64, {}}};
  SampleSpec none_;
  std::vector<std::string> names_;
  std::vector<SkippedFile> skipped_;
};

}  // namespace

TEST_CASE("every sample comes once an epoch, the last batch is short, epochs differ, seeds repeat") {
  PipelineOptions options;
  options.batch_size = 4;
  options.seed = 5;
  auto pipeline = std::move(*DataPipeline::create(rows(10), options));
  CHECK(pipeline->batches_per_epoch() == 3);
  std::vector<int64_t> sizes;
  std::vector<double> first = epoch_of(*pipeline, 0, 0, &sizes), second = epoch_of(*pipeline, 1), again = epoch_of(*pipeline, 0);
  CHECK(sizes == std::vector<int64_t>{4, 4, 2});
  CHECK(first == again);
  CHECK(first != second);
  std::vector<double> sorted = first;
  std::sort(sorted.begin(), sorted.end());
  for (size_t i = 0; i < 10; ++i) CHECK(sorted[i] == static_cast<double>(i));
  std::vector<int64_t> order = pipeline->order(0);
  CHECK(std::vector<double>(order.begin(), order.end()) == first);
}

TEST_CASE("without shuffling samples come in order") {
  PipelineOptions options;
  options.batch_size = 3;
  options.shuffle = false;
  auto pipeline = std::move(*DataPipeline::create(rows(7), options));
  CHECK(epoch_of(*pipeline, 3) == std::vector<double>{0, 1, 2, 3, 4, 5, 6});
}

TEST_CASE("the number of workers and the prefetch change nothing") {
  std::vector<double> reference;
  for (int64_t workers : {0, 1, 2, 5})
    for (int64_t prefetch : {1, 3}) {
      PipelineOptions options;
      options.batch_size = 7;
      options.seed = 3;
      options.workers = workers;
      options.prefetch = prefetch;
      auto pipeline = std::move(*DataPipeline::create(rows(200), options));
      std::vector<double> got = epoch_of(*pipeline, 2);
      if (reference.empty()) reference = got;
      CHECK(got == reference);
    }
}

TEST_CASE("an epoch can be resumed at a batch") {
  PipelineOptions options;
  options.batch_size = 4;
  auto pipeline = std::move(*DataPipeline::create(rows(19), options));
  std::vector<double> whole = epoch_of(*pipeline, 6), rest = epoch_of(*pipeline, 6, 2);
  CHECK(rest == std::vector<double>(whole.begin() + 8, whole.end()));
  CHECK(epoch_of(*pipeline, 6, 5).empty());
}

TEST_CASE("an epoch can be left in the middle, and a pipeline destroyed while workers run") {
  auto rough = std::make_shared<Rough>(100);
  PipelineOptions options;
  options.batch_size = 8;
  options.workers = 3;
  options.prefetch = 4;
  auto pipeline = std::move(*DataPipeline::create(rough, options));
  Batch batch;
  for (int64_t epoch = 0; epoch < 10; ++epoch) {
    pipeline->begin_epoch(epoch);
    REQUIRE(pipeline->next(batch).value());
    std::vector<int64_t> order = pipeline->order(epoch);
    for (int64_t i = 0; i < 8; ++i) CHECK(batch.inputs[0].data<int64_t>()[i] == order[static_cast<size_t>(i)]);
  }
}

TEST_CASE("buffers go round: the same memory comes back") {
  PipelineOptions options;
  options.batch_size = 5;
  options.workers = 2;
  auto pipeline = std::move(*DataPipeline::create(rows(100), options));
  std::set<const std::byte*> seen;
  Batch batch;
  for (int64_t epoch = 0; epoch < 5; ++epoch) {
    pipeline->begin_epoch(epoch);
    while (*pipeline->next(batch)) seen.insert(batch.inputs[0].bytes());
  }
  CHECK(seen.size() <= 3);  // two slots and the one outside
}

TEST_CASE("samples that fail are left out of their batch, named once and counted each epoch") {
  auto rough = std::make_shared<Rough>(10);
  rough->fails = {1, 2};
  rough->throws = {9};
  PipelineOptions options;
  options.batch_size = 4;
  options.shuffle = false;
  options.workers = 2;
  auto pipeline = std::move(*DataPipeline::create(rough, options));
  Batch batch;
  for (int64_t epoch = 0; epoch < 2; ++epoch) {
    pipeline->begin_epoch(epoch);
    std::vector<int64_t> got, sizes;
    while (*pipeline->next(batch)) {
      CHECK(batch.inputs[0].shape() == Shape{batch.size});
      sizes.push_back(batch.size);
      for (int64_t i = 0; i < batch.size; ++i) got.push_back(batch.inputs[0].data<int64_t>()[i]);
    }
    CHECK(got == std::vector<int64_t>{0, 3, 4, 5, 6, 7, 8});
    CHECK(sizes == std::vector<int64_t>{2, 4, 1});
    CHECK(pipeline->skipped_in_epoch() == 3);
    CHECK(pipeline->skipped().size() == 3);
  }
}

TEST_CASE("a batch of which nothing is left does not come") {
  auto rough = std::make_shared<Rough>(6);
  rough->fails = {2, 3};
  PipelineOptions options;
  options.batch_size = 2;
  options.shuffle = false;
  auto pipeline = std::move(*DataPipeline::create(rough, options));
  pipeline->begin_epoch(0);
  Batch batch;
  std::vector<int64_t> got;
  while (*pipeline->next(batch)) got.push_back(batch.inputs[0].data<int64_t>()[0]);
  CHECK(got == std::vector<int64_t>{0, 4});
}

TEST_CASE("with failures not to be skipped the first in order ends the run, by name, without a hang") {
  for (int64_t workers : {0, 3}) {
    auto rough = std::make_shared<Rough>(40);
    rough->fails = {7, 13};
    rough->throws = {21};
    PipelineOptions options;
    options.batch_size = 5;
    options.shuffle = false;
    options.workers = workers;
    options.skip_failed_samples = false;
    auto pipeline = std::move(*DataPipeline::create(rough, options));
    pipeline->begin_epoch(0);
    Batch batch;
    CHECK(*pipeline->next(batch));
    Result<bool> bad = pipeline->next(batch);
    REQUIRE_FALSE(bad.ok());
    CHECK(contains(bad.status().message(), "file-7"));
    CHECK_FALSE(pipeline->next(batch).ok());
  }
}

TEST_CASE("options that cannot be are refused") {
  PipelineOptions options;
  options.batch_size = 0;
  CHECK_FALSE(DataPipeline::create(rows(3), options).ok());
  options = {};
  options.workers = -1;
  CHECK_FALSE(DataPipeline::create(rows(3), options).ok());
}

TEST_CASE("class modes: sparse, one-hot, binary, none, and float targets") {
  std::map<std::string, Tensor> arrays{{"x", Tensor::of<float>({3, 1}, {1, 2, 3})}, {"y", Tensor::ints({1, 0, 1})}};
  std::vector<SampleSpec> wanted{{"x", DType::kFloat32, {1}}};
  auto first = [&](ClassMode mode) {
    ArrayOptions options;
    options.class_mode = mode;
    options.class_count = 2;
    PipelineOptions p;
    p.batch_size = 3;
    p.shuffle = false;
    auto pipeline = std::move(*DataPipeline::create(*make_array_dataset(arrays, wanted, options), p));
    pipeline->begin_epoch(0);
    Batch batch;
    REQUIRE(*pipeline->next(batch));
    return batch.labels;
  };
  CHECK(first(ClassMode::kSparse).to_ints() == std::vector<int64_t>{1, 0, 1});
  Tensor hot = first(ClassMode::kCategorical);
  CHECK(hot.shape() == Shape{3, 2});
  for (int64_t i = 0; i < 6; ++i) CHECK(hot.at(i) == (i == 1 || i == 2 || i == 5 ? 1 : 0));
  Tensor binary = first(ClassMode::kBinary);
  CHECK(binary.shape() == Shape{3, 1});
  CHECK(binary.dtype() == DType::kFloat32);
  CHECK(binary.at(0) == 1);
  CHECK_FALSE(first(ClassMode::kNone).defined());
  arrays["y"] = Tensor::of<double>({3, 2}, {1, 2, 3, 4, 5, 6});
  Tensor targets = first(ClassMode::kSparse);
  CHECK(targets.shape() == Shape{3, 2});
  CHECK(targets.dtype() == DType::kFloat32);
  CHECK(targets.at(5) == 6);
}

TEST_CASE("arrays that do not fit the model say what is there and what is wanted") {
  Tensor x = Tensor::of<float>({3, 2}, {1, 2, 3, 4, 5, 6}), y = Tensor::ints({0, 1, 2});
  std::vector<SampleSpec> wanted{{"x", DType::kFloat32, {2}}};
  auto error = [&](std::map<std::string, Tensor> arrays, ArrayOptions options = {}) {
    auto made = make_array_dataset(std::move(arrays), wanted, options);
    REQUIRE_FALSE(made.ok());
    return made.status().message();
  };
  CHECK(contains(error({{"images", x}, {"y", y}}), "'images'"));
  CHECK(contains(error({{"x", x}}), "labels"));
  CHECK(contains(error({{"x", x}, {"y", y}, {"z", x}}), "'z'"));
  CHECK(contains(error({{"x", x.reshaped({2, 3})}, {"y", y}}), "[3]"));
  CHECK(contains(error({{"x", x}, {"y", Tensor::ints({0, 1})}}), "3 samples"));
  ArrayOptions two;
  two.class_count = 2;
  CHECK(contains(error({{"x", x}, {"y", y}}, two), "class 2"));
  CHECK(contains(error({{"x", x}, {"y", Tensor::ints({0, -1, 1})}}, two), "class -1"));
  ArrayOptions binary;
  binary.class_mode = ClassMode::kBinary;
  CHECK(contains(error({{"x", x}, {"y", y}}, binary), "2 classes"));
  CHECK(make_array_dataset({{"x", Tensor::ints({1, 2, 3}).reshaped({3, 1})}, {"y", y}}, {{"x", DType::kInt32, {-1}}}, {}).ok());
  CHECK_FALSE(make_array_dataset({{"x", Tensor::ints({1, 2, int64_t{1} << 40})}, {"y", y}}, {{"x", DType::kInt32, {}}}, {}).ok());
  CHECK_FALSE(make_array_dataset({{"x", x}, {"y", y}}, {{"x", DType::kInt64, {2}}}, {}).ok());
}

TEST_CASE("a split of arrays is stratified and disjoint") {
  auto all = rows(30);
  auto [train, val] = *split_dataset(all, 0.2, 1);
  CHECK(train->size() == 24);
  CHECK(val->size() == 6);
  std::vector<int> count(3, 0);
  for (int64_t i = 0; i < 6; ++i) ++count[static_cast<size_t>(val->class_of(i))];
  CHECK(count == std::vector<int>{2, 2, 2});
}

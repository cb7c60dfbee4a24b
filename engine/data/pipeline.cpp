// See pipeline.h. A ring of slots holds the batches in the making; workers claim runs of rows, oldest batch first, under one mutex.
// A row's place is known when its batch is opened, so the order in which workers finish does not matter.
#include "engine/data/pipeline.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <mutex>
#include <set>
#include <thread>
#include <tuple>

#include "engine/data/random.h"
#include "engine/io/file.h"

namespace eng {
namespace {

struct Slot {
  Batch batch;
  int64_t first = 0, rows = 0;      // its part of the epoch's order
  int64_t last = 0;                 // rows before this one are loaded (options.part: from claimed's first value on)
  int64_t claimed = 0, done = 0;    // rows
  std::vector<int64_t> failed;      // rows whose sample could not be loaded
  std::vector<Status> errors;       // theirs
};

Shape batch_shape(int64_t rows, const Shape& sample) {
  Shape shape{rows};
  shape.insert(shape.end(), sample.begin(), sample.end());
  return shape;
}

// A buffer of the right type and shape; the old one where it fits.
void fit(Tensor& tensor, int64_t rows, const SampleSpec& spec) {
  const Shape& have = tensor.shape();
  bool same = tensor.dtype() == spec.dtype && have.size() == spec.shape.size() + 1 && have[0] == rows &&
              std::equal(spec.shape.begin(), spec.shape.end(), have.begin() + 1);
  if (same) return;
  tensor = Tensor(spec.dtype, batch_shape(rows, spec.shape));
  std::memset(tensor.mutable_bytes(), 0, tensor.byte_count());  // rows that other ranks have are never written
}

std::byte* row_of(Tensor& tensor, const SampleSpec& spec, int64_t row) {
  return tensor.mutable_bytes() + static_cast<size_t>(row * element_count(spec.shape)) * size_of(spec.dtype);
}

}  // namespace

struct DataPipeline::Impl {
  std::shared_ptr<const Dataset> dataset;
  PipelineOptions options;
  std::vector<int64_t> order;
  int64_t epoch = 0;
  int64_t opened = 0, delivered = 0;  // batches of this epoch

  std::mutex mutex;
  std::condition_variable work, progress;
  std::vector<Slot> slots;            // batch b is made in slot b % slots.size()
  std::vector<std::thread> threads;
  int64_t busy = 0;                   // workers that are loading
  bool stop = false, failed = false, running = false;
  std::vector<SkippedFile> skipped;
  std::set<std::string> skipped_paths;
  int64_t skipped_now = 0;

  ~Impl() {
    {
      std::lock_guard lock(mutex);
      stop = true;
    }
    work.notify_all();
    for (std::thread& thread : threads) thread.join();
  }

  int64_t batch_count() const { return (dataset->size() + options.batch_size - 1) / options.batch_size; }
  Slot& slot(int64_t batch) { return slots[static_cast<size_t>(batch) % slots.size()]; }

  // Opens the next batch of the epoch in its slot. Called with the mutex held.
  void open_batch() {
    Slot& s = slot(opened);
    s.first = opened * options.batch_size;
    s.rows = std::min(options.batch_size, dataset->size() - s.first);
    s.claimed = s.done = 0;
    s.last = s.rows;
    if (options.part) std::tie(s.claimed, s.last) = options.part(s.rows);
    s.done = s.rows - (s.last - s.claimed);
    s.failed.clear();
    s.errors.clear();
    const auto& inputs = dataset->inputs();
    s.batch.inputs.resize(inputs.size());
    for (size_t i = 0; i < inputs.size(); ++i) fit(s.batch.inputs[i], s.rows, inputs[i]);
    if (dataset->label().dtype != DType::kUndefined)
      fit(s.batch.labels, s.rows, dataset->label());
    else
      s.batch.labels = Tensor();
    s.batch.size = s.rows;
    ++opened;
  }

  Status load_row(Slot& s, int64_t row, std::vector<std::byte*>& rows) const {
    const auto& inputs = dataset->inputs();
    rows.resize(inputs.size());
    for (size_t i = 0; i < inputs.size(); ++i) rows[i] = row_of(s.batch.inputs[i], inputs[i], row);
    std::byte* label = s.batch.labels.defined() ? row_of(s.batch.labels, dataset->label(), row) : nullptr;
    int64_t sample = order[static_cast<size_t>(s.first + row)];
    try {
      return dataset->load(sample, {options.seed, epoch, options.augment}, rows, label);
    } catch (const std::exception& e) {
      return Status(Code::kInvalid, cat("'", printable(dataset->sample_name(sample)), "': ", e.what()));
    } catch (...) {
      return internal_error("loading '", printable(dataset->sample_name(sample)), "' threw something unknown");
    }
  }

  // The oldest batch with rows that nobody has claimed. Called with the mutex held.
  Slot* unclaimed() {
    if (!running || failed) return nullptr;
    for (int64_t b = delivered; b < opened; ++b)
      if (slot(b).claimed < slot(b).last) return &slot(b);
    return nullptr;
  }

  // Claims and loads some rows; the mutex is held on entry and exit.
  void work_on(Slot& s, std::unique_lock<std::mutex>& lock, std::vector<std::byte*>& rows) {
    int64_t begin = s.claimed, end = std::min(s.last, begin + dataset->samples_per_job());
    s.claimed = end;
    ++busy;
    lock.unlock();
    std::vector<std::pair<int64_t, Status>> bad;
    for (int64_t row = begin; row < end; ++row) {
      Status status = load_row(s, row, rows);
      if (!status.ok()) bad.emplace_back(row, std::move(status));
    }
    lock.lock();
    for (auto& [row, status] : bad) {
      s.failed.push_back(row);
      s.errors.push_back(std::move(status));
    }
    s.done += end - begin;
    --busy;
    if (s.done == s.rows || busy == 0) progress.notify_all();
  }

  void worker() {
    std::vector<std::byte*> rows;
    std::unique_lock lock(mutex);
    while (true) {
      Slot* s = nullptr;
      work.wait(lock, [&] { return stop || (s = unclaimed()) != nullptr; });
      if (stop) return;
      work_on(*s, lock, rows);
    }
  }

  // Moves the good rows together. False where none is left.
  bool leave_out_failed(Slot& s) {
    std::vector<int64_t> failed_rows = s.failed;
    std::sort(failed_rows.begin(), failed_rows.end());
    for (size_t i = 0; i < s.failed.size(); ++i) {
      std::string path = dataset->sample_name(order[static_cast<size_t>(s.first + s.failed[i])]);
      ++skipped_now;
      if (skipped_paths.insert(path).second) skipped.push_back({path, s.errors[i].message()});
    }
    int64_t kept = s.rows - static_cast<int64_t>(failed_rows.size());
    auto squeeze = [&](Tensor& tensor, const SampleSpec& spec) {
      size_t bytes = static_cast<size_t>(element_count(spec.shape)) * size_of(spec.dtype);
      int64_t to = 0;
      for (int64_t row = 0; row < s.rows; ++row) {
        if (std::binary_search(failed_rows.begin(), failed_rows.end(), row)) continue;
        if (to != row) std::memmove(tensor.mutable_bytes() + static_cast<size_t>(to) * bytes, row_of(tensor, spec, row), bytes);
        ++to;
      }
      tensor = tensor.reshaped(batch_shape(kept, spec.shape));
    };
    for (size_t i = 0; i < s.batch.inputs.size(); ++i) squeeze(s.batch.inputs[i], dataset->inputs()[i]);
    if (s.batch.labels.defined()) squeeze(s.batch.labels, dataset->label());
    s.batch.size = kept;
    return kept > 0;
  }
};

DataPipeline::DataPipeline(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
DataPipeline::~DataPipeline() = default;

Result<std::unique_ptr<DataPipeline>> DataPipeline::create(std::shared_ptr<const Dataset> dataset, const PipelineOptions& options) {
  if (options.batch_size < 1) return usage_error("the batch size must be at least 1, got ", options.batch_size);
  if (options.workers < 0 || options.workers > 1024) return usage_error("workers must lie between 0 and 1024, got ", options.workers);
  if (options.prefetch < 1 || options.prefetch > 1024) return usage_error("prefetch must lie between 1 and 1024, got ", options.prefetch);
  if (!dataset || dataset->size() < 1) return invalid("there is no sample to make batches of");
  auto impl = std::make_unique<Impl>();
  impl->options = options;
  impl->dataset = std::move(dataset);
  impl->skipped = impl->dataset->skipped();
  for (const SkippedFile& file : impl->skipped) impl->skipped_paths.insert(file.path);
  impl->slots.resize(options.workers == 0 ? 1 : static_cast<size_t>(options.prefetch));
  for (int64_t t = 0; t < options.workers; ++t) impl->threads.emplace_back([p = impl.get()] { p->worker(); });
  return std::unique_ptr<DataPipeline>(new DataPipeline(std::move(impl)));
}

void DataPipeline::begin_epoch(int64_t epoch, int64_t first_batch) {
  Impl& p = *impl_;
  std::unique_lock lock(p.mutex);
  p.running = false;
  p.progress.wait(lock, [&] { return p.busy == 0; });
  p.order = order(epoch);
  p.epoch = epoch;
  p.opened = p.delivered = std::clamp<int64_t>(first_batch, 0, p.batch_count());
  p.skipped_now = static_cast<int64_t>(p.dataset->skipped().size());
  p.failed = false;
  p.running = true;
  while (p.opened < p.batch_count() && p.opened - p.delivered < static_cast<int64_t>(p.slots.size())) p.open_batch();
  lock.unlock();
  p.work.notify_all();
}

Result<bool> DataPipeline::next(Batch& batch) {
  Impl& p = *impl_;
  std::unique_lock lock(p.mutex);
  if (!p.running) return internal_error("DataPipeline::next before begin_epoch");
  if (p.failed) return internal_error("DataPipeline::next after an error");
  std::vector<std::byte*> rows;
  while (p.delivered < p.opened) {
    Slot& s = p.slot(p.delivered);
    while (p.threads.empty() && s.claimed < s.last) p.work_on(s, lock, rows);
    p.progress.wait(lock, [&] { return s.done == s.rows; });
    bool any = true;
    if (!s.failed.empty()) {
      size_t first = static_cast<size_t>(std::min_element(s.failed.begin(), s.failed.end()) - s.failed.begin());
      if (!p.options.skip_failed_samples || s.errors[first].code() == Code::kInternal) {
        p.failed = true;
        return s.errors[first];
      }
      any = p.leave_out_failed(s);
    }
    if (any) std::swap(batch, s.batch);
    ++p.delivered;
    if (p.opened < p.batch_count()) {
      p.open_batch();
      p.work.notify_all();
    }
    if (any) return true;
  }
  return false;
}

int64_t DataPipeline::size() const { return impl_->dataset->size(); }
int64_t DataPipeline::batches_per_epoch() const { return impl_->batch_count(); }
const Dataset& DataPipeline::dataset() const { return *impl_->dataset; }

std::vector<int64_t> DataPipeline::order(int64_t epoch) const {
  std::vector<int64_t> order(static_cast<size_t>(impl_->dataset->size()));
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
  if (impl_->options.shuffle) CounterRandom(impl_->options.seed, Purpose::kShuffle, epoch, 0).shuffle(order);
  return order;
}

std::vector<SkippedFile> DataPipeline::skipped() const {
  std::lock_guard lock(impl_->mutex);
  return impl_->skipped;
}
int64_t DataPipeline::skipped_in_epoch() const {
  std::lock_guard lock(impl_->mutex);
  return impl_->skipped_now;
}

}  // namespace eng

// See sharded_step.h. Here: shard programs and the order of a step. What is summed and sent when is in shard_sums.cpp.
#include "engine/exec/sharded_step.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "engine/exec/bucket.h"
#include "engine/exec/shard_sums.h"
#include "engine/exec/shard_tree.h"

namespace eng {
namespace {

// What is fed and fetched for one shard in one step; stays where it is while copies are under way.
struct HostRecord {
  double share_bytes = 0;      // share in the loss's type
  int64_t random_offset[2] = {0, 0};
  std::byte loss[8] = {}, correct[8] = {};
};

struct ShardProgram {
  Step step;
  std::vector<ValueId> feeds, results;
  std::unique_ptr<Program> program;
};

struct ShardWork {
  int64_t shard = 0, first = 0, rows = 0;
  size_t replica = 0, lane = 0;
  ShardProgram* program = nullptr;
  HostRecord host;
  Tensor predictions;
  std::vector<std::vector<std::byte>> sync_parts;  // per sync point
};

// What belongs to one batch size.
struct Round {
  int64_t rows = 0;
  ShardTree tree;
  std::vector<ShardWork> works;              // of this rank, in shard order
  std::vector<std::vector<size_t>> turns;    // turns[j]: the j-th work of each lane
  std::unique_ptr<ShardSums> sums;           // training
};

std::vector<ValueId> results_of(const Step& s) {
  std::vector<ValueId> out = s.gradients;
  for (const auto& [state, part] : s.statistics) out.push_back(part);
  return out;
}

bool has_sync_points(const Graph& g) {
  for (NodeId n : g.live_nodes())
    if (g.node(n).domain == kEngineDomain && g.node(n).op_type == "ShardSum") return true;
  return false;
}

double number_of(const std::byte* bytes, DType type) {
  Tensor t(type, {});
  std::memcpy(t.mutable_bytes(), bytes, size_of(type));
  return t.at(0);
}

}  // namespace

struct ShardedStep::Impl {
  Impl(Fleet& f, MakeStep make, const ShardedOptions& o) : fleet(f), make_step(std::move(make)), options(o) {}

  Fleet& fleet;
  MakeStep make_step;
  ShardedOptions options;
  std::vector<Bucket> buckets;
  std::unique_ptr<SumPool> pool;
  UpdateStep update;
  std::vector<std::unique_ptr<Program>> update_programs;    // per replica
  std::map<std::vector<int64_t>, std::unique_ptr<ShardProgram>> programs;  // {replica, lane, rows, instance}
  std::map<int64_t, std::unique_ptr<Round>> rounds;
  Round* last = nullptr;
  float rate = 0;
  bool summing = false;                                     // what is waited for are sums
  std::vector<double> records;                              // what ranks tell each other after a step

  int64_t first_replica() const { return fleet.ranks->rank() * static_cast<int64_t>(fleet.replicas.size()); }
  Status make_update(const Step& step);
  Result<ShardProgram*> program_of(size_t replica, size_t lane, int64_t rows, int64_t shard);
  Status list_works(Round& round);
  Result<Round*> round_of(int64_t rows);
  Status enqueue(Round& round, ShardWork& work, std::span<const ShardFeed> feeds);
  Status finish(Round& round, ShardWork& work);
  Status run_in_segments(Round& round, std::span<const ShardFeed> feeds);
  Status sum_sync_points(Round& round, size_t segment);
  Status synchronize();
  Status collect(Round& round, bool stop, StepOutcome& outcome);
  Status copy_gradients(std::vector<Tensor>& out);
};

// Buckets and the update programs, from the first step that is made. Gradients come in the reverse order of their weights, statistics with the forward pass.
Status ShardedStep::Impl::make_update(const Step& step) {
  if (!options.training || !update_programs.empty()) return {};
  std::vector<BucketResult> results;
  for (ValueId v : results_of(step)) {
    const NodeId maker = step.graph.value(v).producer;
    results.push_back({step.graph.value(v).dtype, step.graph.value(v).shape, std::max(0, step.graph.node(maker).place)});
  }
  std::vector<size_t> order;
  for (size_t i = step.gradients.size(); i-- > 0;) order.push_back(i);
  for (size_t i = step.gradients.size(); i < results.size(); ++i) order.push_back(i);
  buckets = make_buckets(results, order, options.bucket_bytes);
  pool = std::make_unique<SumPool>(fleet, buckets);
  ENG_ASSIGN(update, build_update_step(step, options.optimizer));
  if (options.adopt) options.adopt(update.graph);
  const auto uses = update.graph.uses();
  for (size_t i = 0; i < update.sums.size(); ++i)
    for (NodeId n : uses[static_cast<size_t>(update.sums[i])]) update.graph.node(n).place = results[i].place;
  for (const Replica& r : fleet.replicas) {
    ProgramOptions o;
    o.external = update.sums;
    for (size_t i = 0; i < update.sums.size(); ++i) o.external_places[update.sums[i]] = results[i].place;  // the norm of all gradients reads other places' too
    o.arenas = r.arenas[0];
    ENG_ASSIGN(auto program, Program::compile(update.graph, r.lanes[0], r.store, {}, o));
    update_programs.push_back(std::move(program));
  }
  return {};
}

// Programs are shared by the shards of a lane that have as many rows, but for those with sync points, whose shards are under way together.
Result<ShardProgram*> ShardedStep::Impl::program_of(size_t replica, size_t lane, int64_t rows, int64_t shard) {
  const std::vector<int64_t> key{static_cast<int64_t>(replica), static_cast<int64_t>(lane), rows, -1}, own{key[0], key[1], rows, shard};
  for (const auto& k : {key, own})
    if (auto it = programs.find(k); it != programs.end()) return it->second.get();
  auto p = std::make_unique<ShardProgram>();
  ENG_ASSIGN(p->step, make_step(rows));
  ENG_TRY(make_update(p->step));
  p->feeds = p->step.inputs;
  if (p->step.labels != kNoValue) p->feeds.push_back(p->step.labels);
  std::vector<ValueId> fetches{p->step.loss};
  if (p->step.correct != kNoValue) fetches.push_back(p->step.correct);
  if (options.keep_predictions && p->step.predictions != kNoValue) fetches.push_back(p->step.predictions);
  ProgramOptions o;
  if (options.training) {
    p->results = results_of(p->step);
    o.external = p->results;
    for (const Bucket& b : buckets) {
      o.marks.emplace_back();
      for (const BucketItem& item : b.items) o.marks.back().push_back(p->results[item.result]);
    }
  }
  const Replica& r = fleet.replicas[replica];
  if (!has_sync_points(p->step.graph)) o.arenas = r.arenas[lane];  // else several shards are under way at once
  ENG_ASSIGN(p->program, Program::compile(p->step.graph, r.lanes[lane], r.store, fetches, o));
  auto& slot = programs[p->program->sync_points().empty() ? key : own];
  slot = std::move(p);
  return slot.get();
}

Status ShardedStep::Impl::list_works(Round& round) {
  const int64_t first = first_replica();
  std::vector<std::vector<size_t>> of_lane(fleet.replicas.size() * fleet.replicas[0].lanes.size());
  const auto lanes = static_cast<int64_t>(fleet.replicas[0].lanes.size());
  for (size_t r = 0; r < fleet.replicas.size(); ++r) {
    std::vector<int64_t> mine;
    for (int64_t s = 0; s < fleet.shards; ++s)
      if (fleet.owner(s) == first + static_cast<int64_t>(r)) mine.push_back(s);
    for (size_t i = 0; i < mine.size(); ++i) {
      ShardWork w;
      w.shard = mine[i];
      const auto [begin, end] = fleet.rows(w.shard, round.rows);
      if (begin == end) continue;
      w.first = begin;
      w.rows = end - begin;
      w.replica = r;
      w.lane = static_cast<size_t>(static_cast<int64_t>(i) * lanes / static_cast<int64_t>(mine.size()));
      ENG_ASSIGN(w.program, program_of(r, w.lane, w.rows, w.shard));
      const Step& step = w.program->step;
      Tensor share(step.share == kNoValue ? DType::kFloat32 : step.graph.value(step.share).dtype, {});
      share.set(0, static_cast<double>(w.rows) / static_cast<double>(round.rows));
      std::memcpy(&w.host.share_bytes, share.bytes(), share.byte_count());
      const Tensor offset = random_offset_of(w.shard);
      std::memcpy(w.host.random_offset, offset.bytes(), sizeof w.host.random_offset);
      for (const SyncPoint& p : w.program->program->sync_points()) w.sync_parts.emplace_back(p.bytes);
      of_lane[r * static_cast<size_t>(lanes) + w.lane].push_back(round.works.size());
      round.works.push_back(std::move(w));
    }
  }
  for (size_t j = 0;; ++j) {
    std::vector<size_t> turn;
    for (const auto& list : of_lane)
      if (j < list.size()) turn.push_back(list[j]);
    if (turn.empty()) return {};
    round.turns.push_back(std::move(turn));
  }
}

Result<Round*> ShardedStep::Impl::round_of(int64_t rows) {
  std::unique_ptr<Round>& slot = rounds[rows];
  if (slot) return slot.get();
  auto round = std::make_unique<Round>();
  round->rows = rows;
  const auto has_rows = [&](int64_t s) {
    const auto [begin, end] = fleet.rows(s, rows);
    return begin < end;
  };
  round->tree = shard_tree(fleet.shards, has_rows);
  ENG_TRY(list_works(*round));
  if (options.training) {
    if (update_programs.empty()) {  // every shard of this rank is empty: the update is run all the same
      ENG_ASSIGN(const Step step, make_step(fleet.rows(round->tree.root, rows).second - fleet.rows(round->tree.root, rows).first));
      ENG_TRY(make_update(step));
    }
    std::vector<ShardPart> parts;
    const bool at_once = !round->works.empty() && !round->works[0].program->program->sync_points().empty();
    for (const ShardWork& w : round->works) parts.push_back({w.shard, w.replica, w.lane});
    ENG_ASSIGN(round->sums, ShardSums::create(fleet, *pool, buckets, round->tree, parts, at_once));
  }
  slot = std::move(round);
  return slot.get();
}

Status ShardedStep::Impl::enqueue(Round& round, ShardWork& w, std::span<const ShardFeed> feeds) {
  Program& program = *w.program->program;
  const Step& step = w.program->step;
  for (size_t i = 0; i < w.program->feeds.size() && i < feeds.size(); ++i)
    ENG_TRY(program.feed_bytes(w.program->feeds[i], feeds[i].data + static_cast<uint64_t>(w.first) * feeds[i].row_bytes, static_cast<uint64_t>(w.rows) * feeds[i].row_bytes));
  if (!options.training) return {};
  ENG_TRY(program.feed_bytes(step.share, &w.host.share_bytes, size_of(step.graph.value(step.share).dtype)));
  if (step.random_offset != kNoValue) ENG_TRY(program.feed_bytes(step.random_offset, w.host.random_offset, sizeof w.host.random_offset));
  for (size_t b = 0; b < buckets.size(); ++b) {
    auto* memory = static_cast<std::byte*>(round.sums->memory_of(w.shard, b));
    for (const BucketItem& item : buckets[b].items) program.bind(w.program->results[item.result], memory + item.offset);
  }
  return {};
}

// Behind the shard's last kernel: loss and counts go to the host, and the sums that this shard completes on its own lane are added.
Status ShardedStep::Impl::finish(Round& round, ShardWork& w) {
  Program& program = *w.program->program;
  const Step& step = w.program->step;
  ENG_TRY(program.fetch_later(step.loss, w.host.loss, size_of(step.graph.value(step.loss).dtype)));
  if (step.correct != kNoValue) ENG_TRY(program.fetch_later(step.correct, w.host.correct, size_of(step.graph.value(step.correct).dtype)));
  if (options.keep_predictions && step.predictions != kNoValue) {
    const Value& v = step.graph.value(step.predictions);
    if (!w.predictions.defined()) w.predictions = Tensor(v.dtype, v.shape);
    ENG_TRY(program.fetch_later(step.predictions, w.predictions.mutable_bytes(), w.predictions.byte_count()));
  }
  return options.training ? round.sums->shard_done(w.shard, program) : Status();
}

// Every shard's part of each sync point of the segment -> the sum, on every device, before the next segment is enqueued.
Status ShardedStep::Impl::sum_sync_points(Round& round, size_t segment) {
  for (ShardWork& w : round.works) {
    const SyncPoint& p = w.program->program->sync_points()[segment];
    ENG_TRY(p.device->copy_to_host(w.sync_parts[segment].data(), p.input, p.bytes));
  }
  for (ShardWork& w : round.works) ENG_TRY(w.program->program->sync_points()[segment].device->synchronize());
  const SyncPoint& form = round.works[0].program->program->sync_points()[segment];
  ENG_ASSIGN(std::vector<std::byte> sum, sum_over_shards(fleet, round.tree, round.rows, form.dtype, form.bytes, Ranks::kMaxTag - static_cast<int>(segment), [&](int64_t shard) -> const std::byte* {
    for (const ShardWork& w : round.works)
      if (w.shard == shard) return w.sync_parts[segment].data();
    return nullptr;
  }));
  for (ShardWork& w : round.works) {
    const SyncPoint& p = w.program->program->sync_points()[segment];
    std::memcpy(w.sync_parts[segment].data(), sum.data(), sum.size());
    ENG_TRY(p.device->copy_to_device(p.output, w.sync_parts[segment].data(), p.bytes));
  }
  return {};
}

Status ShardedStep::Impl::run_in_segments(Round& round, std::span<const ShardFeed> feeds) {
  const size_t segments = round.works.empty() ? 0 : round.works[0].program->program->segments();
  for (ShardWork& w : round.works) ENG_TRY(enqueue(round, w, feeds));
  for (size_t i = 0; i < segments; ++i) {
    for (const auto& turn : round.turns)
      for (size_t at : turn) ENG_TRY(round.works[at].program->program->run_segment(i));
    if (i + 1 < segments) ENG_TRY(sum_sync_points(round, i));
  }
  for (ShardWork& w : round.works) ENG_TRY(finish(round, w));
  return {};
}

// All streams, those of a device that did not answer but once.
Status ShardedStep::Impl::synchronize() {
  Status first;
  std::vector<const Device*> lost;
  const auto wait = [&](const std::shared_ptr<Device>& device) {
    for (const Device* other : lost)
      if (device->same_device(*other)) return device->give_up();
    Status s = device->synchronize();
    if (device->lost()) lost.push_back(device.get());
    if (first.ok()) first = std::move(s);
  };
  for (const Replica& r : fleet.replicas) {
    for (const auto& lane : r.lanes)
      for (const auto& device : lane) wait(device);
    for (const auto& device : r.sums) wait(device);
  }
  return first;
}

// Losses of all shards, whoever computed them, weighted by their rows in shard order.
Status ShardedStep::Impl::collect(Round& round, bool stop, StepOutcome& outcome) {
  const auto each = static_cast<size_t>(2 * fleet.shards + 1);
  const auto ranks = static_cast<size_t>(fleet.ranks->size());
  records.assign(each * (ranks + 1), 0);
  double* mine = records.data() + each * ranks;
  for (const ShardWork& w : round.works) {
    const Step& step = w.program->step;
    mine[2 * w.shard] = number_of(w.host.loss, step.graph.value(step.loss).dtype);
    if (step.correct != kNoValue) mine[2 * w.shard + 1] = number_of(w.host.correct, step.graph.value(step.correct).dtype);
  }
  mine[each - 1] = stop;
  ENG_TRY(fleet.ranks->gather_all(mine, each * sizeof(double), records.data()));
  outcome = {};
  double sum = 0;
  for (int64_t s = 0; s < fleet.shards; ++s) {
    const auto [begin, end] = fleet.rows(s, round.rows);
    if (begin == end) continue;
    const size_t rank = static_cast<size_t>(fleet.owner(s)) / fleet.replicas.size();
    const double* from = records.data() + each * rank;
    sum += from[2 * s] * static_cast<double>(end - begin);
    outcome.correct += static_cast<int64_t>(from[2 * s + 1]);
  }
  outcome.loss = sum / static_cast<double>(round.rows);
  for (size_t r = 0; r < ranks; ++r) outcome.stop |= records[each * r + each - 1] != 0;
  return {};
}

// Enqueues.
Status ShardedStep::Impl::copy_gradients(std::vector<Tensor>& out) {
  const Step& step = programs.begin()->second->step;
  for (size_t b = 0; b < buckets.size(); ++b) {
    ENG_ASSIGN(void* memory, last->sums->result(0, b));
    const std::shared_ptr<Device>& device = fleet.replicas[0].lanes[0][static_cast<size_t>(buckets[b].place)];  // whose stream result() made wait
    for (const BucketItem& item : buckets[b].items) {
      if (item.result >= out.size()) continue;
      const Value& v = step.graph.value(step.gradients[item.result]);
      out[item.result] = Tensor(v.dtype, v.shape);
      ENG_TRY(device->copy_to_host(out[item.result].mutable_bytes(), static_cast<std::byte*>(memory) + item.offset, item.bytes));
    }
  }
  return {};
}

ShardedStep::ShardedStep(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ShardedStep::~ShardedStep() {
  if (!impl_) return;
  (void)impl_->synchronize();
  for (const Replica& r : impl_->fleet.replicas)
    for (const auto& lane : r.lanes)
      for (const auto& device : lane)
        if (device->lost()) {  // its work may still use the buckets
          keep_for_lost_device(impl_.release());
          return;
        }
}

Result<std::unique_ptr<ShardedStep>> ShardedStep::create(Fleet& fleet, MakeStep make_step, const ShardedOptions& options) {
  return std::unique_ptr<ShardedStep>(new ShardedStep(std::make_unique<Impl>(fleet, std::move(make_step), options)));
}

Status ShardedStep::prepare(int64_t batch_rows) {
  ENG_ASSIGN(impl_->last, impl_->round_of(batch_rows));
  return {};
}

Status ShardedStep::run(int64_t batch_rows, std::span<const ShardFeed> feeds, double learning_rate, bool stop, StepOutcome& outcome) {
  Status status = run_whole(batch_rows, feeds, learning_rate, stop, outcome);
  if (!status.ok()) {
    if (impl_->last && impl_->last->sums) impl_->last->sums->abort();
    Status own = impl_->synchronize();  // what the other streams were given still reads the batch
    if (impl_->summing && !own.ok()) status = std::move(own);  // the device that fails says more than those that wait for it
  }
  return status;
}

Status ShardedStep::run_whole(int64_t batch_rows, std::span<const ShardFeed> feeds, double learning_rate, bool stop, StepOutcome& outcome) {
  Impl& s = *impl_;
  ENG_TRY(prepare(batch_rows));
  s.summing = false;
  Round& round = *s.last;
  const bool in_segments = !round.works.empty() && round.works[0].program->program->segments() > 1;
  if (s.options.training) ENG_TRY(round.sums->begin());
  if (in_segments) {
    ENG_TRY(s.run_in_segments(round, feeds));
  } else {
    for (const auto& turn : round.turns)
      for (size_t at : turn) {
        ENG_TRY(s.enqueue(round, round.works[at], feeds));
        ENG_TRY(round.works[at].program->program->run());
        ENG_TRY(s.finish(round, round.works[at]));
      }
  }
  if (s.options.training) {
    s.summing = true;
    ENG_TRY(round.sums->finish());
    s.rate = static_cast<float>(learning_rate);
    for (size_t r = 0; r < s.update_programs.size(); ++r) {
      Program& update = *s.update_programs[r];
      ENG_TRY(update.feed_bytes(s.update.learning_rate, &s.rate, sizeof s.rate));
      for (size_t b = 0; b < s.buckets.size(); ++b) {
        ENG_ASSIGN(void* memory, round.sums->result(r, b));
        for (const BucketItem& item : s.buckets[b].items) update.bind(s.update.sums[item.result], static_cast<std::byte*>(memory) + item.offset);
      }
      ENG_TRY(update.run());
    }
    ENG_TRY(round.sums->settle());
    s.summing = false;
  }
  ENG_TRY(s.synchronize());
  return s.collect(round, stop, outcome);
}

Result<std::vector<Tensor>> ShardedStep::gradients() {
  Impl& s = *impl_;
  if (!s.last || !s.last->sums) return internal_error("no training step has run");
  std::vector<Tensor> out(step().gradients.size());
  const Status copied = s.copy_gradients(out);
  ENG_TRY(s.synchronize());  // before `out` may go
  ENG_TRY(copied);
  return out;
}

Result<std::vector<Tensor>> ShardedStep::predictions() {
  std::vector<Tensor> out;
  if (impl_->last)
    for (const ShardWork& w : impl_->last->works) out.push_back(w.predictions);
  return out;
}

const Step& ShardedStep::step() const { return impl_->programs.begin()->second->step; }

uint64_t ShardedStep::memory(size_t replica, size_t place) const {
  const Impl& s = *impl_;
  uint64_t bytes = s.pool ? s.pool->bytes(replica, static_cast<int32_t>(place)) : 0;
  for (const auto& lane : s.fleet.replicas[replica].arenas) bytes += lane[place]->bytes();
  uint64_t state = 0;
  const auto add = [&](const Program& p) {
    const MemoryReport& m = p.memory(place);
    bytes += m.inputs + m.constants;
    state = std::max(state, m.state);
  };
  for (const auto& [key, p] : s.programs) {
    if (key[0] != static_cast<int64_t>(replica)) continue;
    add(*p->program);
    if (!p->program->sync_points().empty()) bytes += p->program->memory(place).arena;
  }
  if (replica < s.update_programs.size()) add(*s.update_programs[replica]);
  return bytes + state;
}

}  // namespace eng

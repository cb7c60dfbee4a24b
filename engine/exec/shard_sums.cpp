// See shard_sums.h. Each bucket goes through its way (sum_ways.h) by itself, so that a message under way holds up only its own bucket.
#include "engine/exec/shard_sums.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "engine/exec/sum_ways.h"
#include "engine/report/chrome_trace.h"

namespace eng {
namespace {
// How long a wait for one thing may hold up the others. Waking up takes the core from the kernels for a moment, so nothing is polled.
constexpr std::chrono::milliseconds kPatience{10};
}

const std::shared_ptr<Device>& SumPool::device(size_t replica, size_t lane, size_t bucket) const {
  const Replica& r = fleet_.replicas[replica];
  const auto place = static_cast<size_t>(buckets_[bucket].place);
  return lane == kSums ? r.sums[place] : r.lanes[lane][place];
}

Result<void*> SumPool::bucket_memory(size_t replica, size_t lane, size_t slot, size_t bucket) {
  DeviceBuffer& b = memory_[{replica, lane, slot, bucket}];
  if (!b.data()) {
    const std::shared_ptr<Device>& on = device(replica, lane, bucket);
    ENG_ASSIGN(b, DeviceBuffer::allocate(on, buckets_[bucket].bytes));
    ENG_TRY(on->fill_zero(b.data(), buckets_[bucket].bytes));  // the gaps between items are added too
    ENG_TRY(on->synchronize());
  }
  return b.data();
}

Result<BucketAdder*> SumPool::adder(size_t replica, size_t lane, size_t bucket) {
  std::unique_ptr<BucketAdder>& a = adders_[{replica, lane, bucket}];
  if (!a) {
    ENG_ASSIGN(a, BucketAdder::create(device(replica, lane, bucket), buckets_[bucket]));
  }
  return a.get();
}

Result<void*> SumPool::host_memory(size_t which, size_t bucket) {
  HostBuffer& b = host_[{which, bucket}];
  if (!b.data()) {
    ENG_ASSIGN(b, HostBuffer::allocate(device(0, 0, bucket), buckets_[bucket].bytes));
  }
  return b.data();
}

Result<void*> SumPool::staging(size_t replica, size_t bucket) { return bucket_memory(replica, kSums, 0, bucket); }

uint64_t SumPool::bytes(size_t replica, int32_t place) const {
  uint64_t sum = 0;
  for (const auto& [key, buffer] : memory_)
    if (key[0] == replica && buckets_[key[3]].place == place) sum += buffer.bytes();
  return sum;
}

namespace {

// How far a bucket has come.
struct Progress {
  size_t job = 0;
  int64_t ticket = -1;
  int stage = 0;             // within the job
  bool received_all = false; // the total came as a message
  int64_t posted_ns = 0;     // when the message was
  Event* staged = nullptr;   // the host memory of this bucket is in use until it passes
  Event* pending = nullptr;  // what the job waits for, where that is a device
};

// Another rank whose device hangs says so itself after its own limit, or twice that: it has the word first.
int64_t patience_with_ranks(int64_t limit) { return 2 * limit + 10000; }

Status late(const char* who, int64_t milliseconds) {
  return device_error("no gradient has come from ", who, " for ", static_cast<double>(milliseconds) / 1000, " s: a device hangs or takes longer than expected; --device-timeout SECONDS sets how long to wait");
}

int64_t now_ns() { return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

}  // namespace

struct ShardSums::Impl {
  Impl(Fleet& f, SumPool& p, const std::vector<Bucket>& b) : fleet(f), pool(p), buckets(b) {}

  Fleet& fleet;
  SumPool& pool;
  const std::vector<Bucket>& buckets;
  bool at_once = false;
  ShardTree tree;
  std::map<int64_t, Part> parts;                              // of this rank
  std::map<int64_t, std::vector<void*>> memory;               // [bucket]
  std::map<int64_t, std::vector<std::unique_ptr<Event>>> lane_events;
  std::vector<std::vector<std::unique_ptr<Event>>> job_events; // [bucket][job]: what the job enqueued is done; null where it enqueues nothing
  std::vector<std::unique_ptr<Event>> between_events;
  std::map<int64_t, std::vector<Event*>> ready;               // [bucket]: when a part is complete, as far as it has been added up
  std::vector<Way> ways;
  Way all_reduce;
  std::vector<std::vector<std::unique_ptr<Event>>> reduced;   // [bucket][replica]: the all-reduce is done; empty where the bucket's way has none
  std::vector<Progress> progress;
  std::vector<int64_t> tickets;
  std::vector<Communicator*> members;  // of the all-reduce that is being enqueued
  std::vector<void*> blocks;

  bool by_collectives(size_t bucket) const { return fleet.by_collectives(static_cast<size_t>(buckets[bucket].place)); }
  const Way& way_of(size_t bucket) const { return by_collectives(bucket) ? all_reduce : ways[bucket % ways.size()]; }
  const std::shared_ptr<Device>& sum_device(int64_t shard, size_t bucket) const { return fleet.replicas[parts.at(shard).replica].sums[static_cast<size_t>(buckets[bucket].place)]; }
  const std::shared_ptr<Device>& lane_device(int64_t shard, size_t bucket) const {
    const Part& p = parts.at(shard);
    return fleet.replicas[p.replica].lanes[p.lane][static_cast<size_t>(buckets[bucket].place)];
  }
  Status give_memory();
  Status give_events(size_t bucket);
  Result<const void*> brought(int64_t shard, size_t bucket, const std::shared_ptr<Device>& to, size_t to_replica, size_t job);
  Status add_local(size_t job, size_t bucket);
  Result<void*> memory_of_replica(size_t replica, size_t bucket);
  Status reduce_all(size_t bucket);
  Status wait_reduced(size_t bucket);
  Status all_healthy();
  Result<bool> advance(size_t bucket);
  Result<bool> advance_send(const Job& job, size_t bucket, Progress& p);
  Result<bool> advance_receive(size_t job, size_t bucket, Progress& p);
  Result<bool> to_host(int64_t shard, size_t bucket, Progress& p);
  bool arrived(const Job& job, size_t bucket, Progress& p);
};

// Whether the message that is under way has come; says so in the trace.
bool ShardSums::Impl::arrived(const Job& job, size_t bucket, Progress& p) {
  if (!fleet.ranks->done(p.ticket)) return false;
  if (fleet.trace && fleet.trace->on()) {
    const bool out = job.kind == JobKind::kSend || job.kind == JobKind::kSendAll, total = job.kind == JobKind::kSendAll || job.kind == JobKind::kReceiveAll;
    fleet.trace->add(cat("messages ", out ? "to" : "from", " rank ", job.rank), cat(total ? "total of " : "part of ", "bucket ", bucket, ", ", buckets[bucket].bytes, " bytes"), p.posted_ns, now_ns());
  }
  return true;
}

Status ShardSums::Impl::give_memory() {
  for (const auto& [shard, part] : parts) {
    std::vector<void*>& at = memory[shard];
    for (size_t b = 0; b < buckets.size(); ++b) {
      ENG_ASSIGN(void* m, pool.bucket_memory(part.replica, part.lane, part.slot, b));
      at.push_back(m);
      if (!part.merges.empty()) ENG_TRY(pool.adder(part.replica, part.lane, b).status());
      if (part.own_events) {
        ENG_ASSIGN(auto event, Event::create(lane_device(shard, b)));
        lane_events[shard].push_back(std::move(event));
      }
    }
    ready[shard].assign(buckets.size(), nullptr);
  }
  job_events.resize(buckets.size());
  reduced.resize(buckets.size());
  for (size_t b = 0; b < buckets.size(); ++b) ENG_TRY(give_events(b));
  progress.resize(buckets.size());
  tickets.reserve(buckets.size());
  return {};
}

Status ShardSums::Impl::give_events(size_t b) {
  for (const Job& job : way_of(b).jobs) {
    const int64_t on = job.kind == JobKind::kSend ? job.from : job.into;
    std::unique_ptr<Event> event;
    if (on >= 0) {
      ENG_ASSIGN(event, Event::create(sum_device(on, b)));
    }
    job_events[b].push_back(std::move(event));
    if (job.kind == JobKind::kAdd || job.kind == JobKind::kReceive) ENG_TRY(pool.adder(parts.at(job.into).replica, SumPool::kSums, b).status());
    if (job.kind != JobKind::kAdd && job.kind != JobKind::kAllReduce) ENG_TRY(pool.host_memory(0, b).status());
  }
  for (size_t r = 0; r < fleet.replicas.size() && by_collectives(b); ++r) {
    ENG_ASSIGN(auto event, Event::create(fleet.replicas[r].sums[static_cast<size_t>(buckets[b].place)]));
    reduced[b].push_back(std::move(event));
    ENG_TRY(memory_of_replica(r, b).status());
  }
  return {};
}

// Where a replica's part is, and after the all-reduce the total. A replica without rows has a block for zeros.
Result<void*> ShardSums::Impl::memory_of_replica(size_t replica, size_t bucket) {
  const int64_t root = all_reduce.roots[replica];
  return root < 0 ? pool.bucket_memory(replica, 0, 0, bucket) : memory.at(root)[bucket];
}

Status ShardSums::Impl::reduce_all(size_t bucket) {
  const auto place = static_cast<size_t>(buckets[bucket].place);
  members.clear();
  blocks.clear();
  for (size_t r = 0; r < fleet.replicas.size(); ++r) {
    const std::shared_ptr<Device>& on = fleet.replicas[r].sums[place];
    ENG_ASSIGN(void* block, memory_of_replica(r, bucket));
    if (const int64_t root = all_reduce.roots[r]; root >= 0) ENG_TRY(on->wait(*ready.at(root)[bucket]));
    else ENG_TRY(on->fill_zero(block, buckets[bucket].bytes));
    members.push_back(fleet.replicas[r].communicators[place].get());
    blocks.push_back(block);
  }
  ENG_TRY(Communicator::all_reduce(members, blocks, buckets[bucket].bytes / size_of(buckets[bucket].dtype), buckets[bucket].dtype));
  for (size_t r = 0; r < fleet.replicas.size(); ++r) ENG_TRY(fleet.replicas[r].sums[place]->record(*reduced[bucket][r]));
  return {};
}

// A device that fails leaves the others waiting for it in their all-reduce: while one is waited for, all are asked. A rank whose own parts are there waits
// longer than one whose device hangs, so that this one has the word first.
Status ShardSums::Impl::wait_reduced(size_t bucket) {
  using Clock = std::chrono::steady_clock;
  const auto begun = Clock::now();
  const int64_t limit = fleet.first_device()->timeout();
  for (const auto& event : reduced[bucket])
    for (bool passed = false; !passed;) {
      ENG_TRY(event->passed(passed, kPatience));
      if (passed) break;
      bool own = true;
      for (const auto& e : reduced[bucket]) ENG_TRY(e->passed(passed));
      for (int64_t root : all_reduce.roots) {
        if (root < 0 || !own) continue;
        ENG_TRY(ready.at(root)[bucket]->passed(own));
      }
      ENG_TRY(all_healthy());
      passed = false;
      const bool others = own && fleet.ranks->size() > 1;
      const int64_t patience = others ? patience_with_ranks(limit) : limit;
      if (limit >= 0 && Clock::now() - begun > std::chrono::milliseconds(patience)) return late(others ? "the other ranks" : "the devices", patience);
    }
  return {};
}

// Of the ranks, and of the devices' collectives.
Status ShardSums::Impl::all_healthy() {
  ENG_TRY(fleet.ranks->health());
  for (const Replica& r : fleet.replicas)
    for (const auto& c : r.communicators)
      if (c) ENG_TRY(c->health());
  return {};
}

// A part's memory as the stream of `to` can read it: as it is, or copied to the replica's staging memory through the host.
Result<const void*> ShardSums::Impl::brought(int64_t shard, size_t bucket, const std::shared_ptr<Device>& to, size_t to_replica, size_t job) {
  const void* from = memory.at(shard)[bucket];
  const std::shared_ptr<Device>& source = sum_device(shard, bucket);
  if (to->sees(*source)) {
    ENG_TRY(to->wait(*ready.at(shard)[bucket]));
    return from;
  }
  const uint64_t bytes = buckets[bucket].bytes;
  ENG_ASSIGN(void* host, pool.host_memory(1 + job, bucket));
  ENG_ASSIGN(void* staging, pool.staging(to_replica, bucket));
  ENG_ASSIGN(std::unique_ptr<Event> moved, Event::create(source));
  ENG_TRY(source->wait(*ready.at(shard)[bucket]));
  ENG_TRY(source->copy_to_host(host, from, bytes));
  ENG_TRY(source->record(*moved));
  ENG_TRY(to->wait(*moved));
  ENG_TRY(to->copy_to_device(staging, host, bytes));
  between_events.push_back(std::move(moved));
  return staging;
}

Status ShardSums::Impl::add_local(size_t j, size_t bucket) {
  const Job& job = way_of(bucket).jobs[j];
  const Part& into = parts.at(job.into);
  const std::shared_ptr<Device>& on = sum_device(job.into, bucket);
  Event& done = *job_events[bucket][j];
  ENG_TRY(on->wait(*ready.at(job.into)[bucket]));
  ENG_ASSIGN(const void* from, brought(job.from, bucket, on, into.replica, j));
  ENG_ASSIGN(BucketAdder * adder, pool.adder(into.replica, SumPool::kSums, bucket));
  ENG_TRY(adder->run(memory.at(job.into)[bucket], from));
  ENG_TRY(on->record(done));
  ready.at(job.into)[bucket] = &done;
  return {};
}

// Whether the part is complete and lies where a message can be sent from: in place, or copied into the bucket's host memory.
Result<bool> ShardSums::Impl::to_host(int64_t shard, size_t bucket, Progress& p) {
  const std::shared_ptr<Device>& on = sum_device(shard, bucket);
  if (p.stage == 0 && !on->host_visible()) {
    ENG_ASSIGN(void* host, pool.host_memory(0, bucket));
    ENG_TRY(on->wait(*ready.at(shard)[bucket]));
    ENG_TRY(on->copy_to_host(host, memory.at(shard)[bucket], buckets[bucket].bytes));
    Event& event = job_events[bucket][p.job] ? *job_events[bucket][p.job] : *ready.at(shard)[bucket];
    ENG_TRY(on->record(event));
    ready.at(shard)[bucket] = &event;
  }
  p.stage = 1;
  bool yes = false;
  p.pending = ready.at(shard)[bucket];
  ENG_TRY(p.pending->passed(yes));
  return yes;
}

Result<bool> ShardSums::Impl::advance_send(const Job& job, size_t bucket, Progress& p) {
  const bool total = job.kind == JobKind::kSendAll;
  const int64_t shard = total ? way_of(bucket).root : job.from;
  const void* from = nullptr;
  if (p.ticket < 0) {
    if (total && p.received_all) {
      ENG_ASSIGN(from, pool.host_memory(0, bucket));
    } else {
      ENG_ASSIGN(const bool there, to_host(shard, bucket, p));
      if (!there) return false;
      from = memory.at(shard)[bucket];
      if (!sum_device(shard, bucket)->host_visible()) {
        ENG_ASSIGN(from, pool.host_memory(0, bucket));
      }
    }
    p.posted_ns = now_ns();
    p.ticket = fleet.ranks->post_send(job.rank, static_cast<int>(bucket), from, buckets[bucket].bytes);
  }
  return arrived(job, bucket, p);
}

Result<bool> ShardSums::Impl::advance_receive(size_t j, size_t bucket, Progress& p) {
  const Job& job = way_of(bucket).jobs[j];
  ENG_ASSIGN(void* host, pool.host_memory(0, bucket));
  if (p.ticket < 0) {
    if (p.staged) {  // what came before is still being added
      bool yes = false;
      p.pending = p.staged;
      ENG_TRY(p.staged->passed(yes));
      if (!yes) return false;
      p.staged = nullptr;
    }
    p.posted_ns = now_ns();
    p.ticket = fleet.ranks->post_receive(job.rank, static_cast<int>(bucket), host, buckets[bucket].bytes);
  }
  if (!arrived(job, bucket, p)) return false;
  if (job.kind == JobKind::kReceiveAll) {
    p.received_all = true;
    return true;
  }
  const Part& into = parts.at(job.into);
  const std::shared_ptr<Device>& on = sum_device(job.into, bucket);
  ENG_TRY(on->wait(*ready.at(job.into)[bucket]));
  const void* from = host;
  if (!on->host_visible()) {
    ENG_ASSIGN(void* staging, pool.staging(into.replica, bucket));
    ENG_TRY(on->copy_to_device(staging, host, buckets[bucket].bytes));
    from = staging;
  }
  ENG_ASSIGN(BucketAdder * adder, pool.adder(into.replica, SumPool::kSums, bucket));
  ENG_TRY(adder->run(memory.at(job.into)[bucket], from));
  ENG_TRY(on->record(*job_events[bucket][j]));
  p.staged = job_events[bucket][j].get();
  ready.at(job.into)[bucket] = p.staged;
  return true;
}

// Goes on with a bucket as far as it can; true when all its jobs are done.
Result<bool> ShardSums::Impl::advance(size_t bucket) {
  Progress& p = progress[bucket];
  const std::vector<Job>& jobs = way_of(bucket).jobs;
  while (p.job < jobs.size()) {
    const Job& job = jobs[p.job];
    bool done = true;
    if (job.kind == JobKind::kAdd) {
      ENG_TRY(add_local(p.job, bucket));
    } else if (job.kind == JobKind::kAllReduce) {
      ENG_TRY(reduce_all(bucket));
    } else if (job.kind == JobKind::kSend || job.kind == JobKind::kSendAll) {
      ENG_ASSIGN(done, advance_send(job, bucket, p));
    } else {
      ENG_ASSIGN(done, advance_receive(p.job, bucket, p));
    }
    if (!done) return false;
    ++p.job;
    p.ticket = -1;
    p.stage = 0;
  }
  return true;
}

ShardSums::ShardSums(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ShardSums::~ShardSums() = default;

Result<std::unique_ptr<ShardSums>> ShardSums::create(Fleet& fleet, SumPool& pool, const std::vector<Bucket>& buckets, const ShardTree& tree, const std::vector<ShardPart>& parts,
                                                     bool at_once) {
  auto impl = std::make_unique<Impl>(fleet, pool, buckets);
  impl->at_once = at_once;
  impl->tree = tree;
  for (const ShardPart& p : parts) impl->parts[p.shard] = {.replica = p.replica, .lane = p.lane};
  plan_lanes(impl->parts, tree, at_once);
  impl->ways = plan_ways(fleet, tree, impl->parts);
  impl->all_reduce = plan_all_reduce(fleet, impl->parts);
  ENG_TRY(impl->give_memory());
  return std::unique_ptr<ShardSums>(new ShardSums(std::move(impl)));
}

void* ShardSums::memory_of(int64_t shard, size_t bucket) const { return impl_->memory.at(shard)[bucket]; }

Status ShardSums::begin() {
  for (Progress& p : impl_->progress) p = {};
  impl_->between_events.clear();
  return {};
}

Status ShardSums::shard_done(int64_t shard, Program& program) {
  Impl& s = *impl_;
  Part& part = s.parts.at(shard);
  for (size_t b = 0; b < s.buckets.size(); ++b) s.ready.at(shard)[b] = program.mark(b)[0];
  for (size_t b = 0; b < s.buckets.size() && !part.merges.empty(); ++b) {
    const std::shared_ptr<Device>& on = s.lane_device(shard, b);
    ENG_ASSIGN(BucketAdder * adder, s.pool.adder(part.replica, part.lane, b));
    for (const auto& [left, right] : part.merges) ENG_TRY(adder->run(s.memory.at(left)[b], s.memory.at(right)[b]));
    for (const auto& [left, right] : part.merges) {
      Event& event = *s.lane_events.at(left)[b];
      ENG_TRY(on->record(event));
      s.ready.at(left)[b] = &event;
    }
  }
  return {};
}

Status ShardSums::finish() {
  using Clock = std::chrono::steady_clock;
  Impl& s = *impl_;
  const int64_t limit = s.fleet.first_device()->timeout();
  auto moved = Clock::now();
  size_t before = 0;
  for (;;) {
    size_t left = 0, at = 0;
    Event* device = nullptr;  // the first thing that a device is still to do: buckets are complete in their order
    s.tickets.clear();
    for (size_t b = 0; b < s.buckets.size(); ++b) {
      ENG_ASSIGN(const bool done, s.advance(b));
      at += s.progress[b].job;
      if (done) continue;
      ++left;
      if (s.progress[b].ticket >= 0) s.tickets.push_back(s.progress[b].ticket);
      else if (!device) device = s.progress[b].pending;
    }
    if (left == 0) return {};
    if (at != before) moved = Clock::now();
    before = at;
    ENG_TRY(s.fleet.ranks->health());
    bool passed = false;
    if (device) {
      ENG_TRY(device->passed(passed, kPatience));
    } else {
      ENG_TRY(s.fleet.ranks->wait_any(s.tickets, kPatience).status());
    }
    const int64_t patience = device ? limit : patience_with_ranks(limit);
    if (limit < 0 || Clock::now() - moved < std::chrono::milliseconds(patience)) continue;
    return late(device ? "the devices" : "the other ranks", patience);
  }
}

Status ShardSums::settle() {
  Impl& s = *impl_;
  for (size_t b = 0; b < s.buckets.size(); ++b)
    if (s.by_collectives(b)) ENG_TRY(s.wait_reduced(b));
  return {};
}

void ShardSums::abort() {
  for (Replica& r : impl_->fleet.replicas)
    for (auto& c : r.communicators)
      if (c) c->abort();
}

Result<void*> ShardSums::result(size_t replica, size_t bucket) {
  Impl& s = *impl_;
  const std::shared_ptr<Device>& on = s.fleet.replicas[replica].lanes[0][static_cast<size_t>(s.buckets[bucket].place)];
  if (s.by_collectives(bucket)) {
    ENG_TRY(on->wait(*s.reduced[bucket][replica]));
    return s.memory_of_replica(replica, bucket);
  }
  if (s.progress[bucket].received_all) {
    ENG_ASSIGN(void* host, s.pool.host_memory(0, bucket));
    if (on->host_visible()) return host;
    ENG_ASSIGN(void* staging, s.pool.staging(replica, bucket));
    ENG_TRY(on->copy_to_device(staging, host, s.buckets[bucket].bytes));
    return staging;
  }
  ENG_ASSIGN(const void* total, s.brought(s.way_of(bucket).root, bucket, on, replica, s.way_of(bucket).jobs.size() + replica));
  return const_cast<void*>(total);
}

Result<std::vector<std::byte>> sum_over_shards(Fleet& fleet, const ShardTree& tree, int64_t batch_rows, DType dtype, uint64_t bytes, int tag,
                                               const std::function<const std::byte*(int64_t)>& part_of) {
  const int me = fleet.ranks->rank();
  std::vector<std::vector<std::byte>> of_rank(static_cast<size_t>(fleet.ranks->size()));  // parts of its shards, one after the other
  std::vector<std::byte*> at(static_cast<size_t>(fleet.shards), nullptr);
  std::vector<int64_t> shards;  // with rows
  for (int64_t i = 0; i < fleet.shards; ++i) {
    const auto [first, last] = fleet.rows(i, batch_rows);
    if (first == last) continue;
    shards.push_back(i);
    of_rank[static_cast<size_t>(fleet.owner(i)) / fleet.replicas.size()].resize(of_rank[static_cast<size_t>(fleet.owner(i)) / fleet.replicas.size()].size() + bytes);
  }
  std::vector<size_t> used(of_rank.size(), 0);
  for (int64_t i : shards) {
    const size_t rank = static_cast<size_t>(fleet.owner(i)) / fleet.replicas.size();
    at[static_cast<size_t>(i)] = of_rank[rank].data() + used[rank];
    used[rank] += bytes;
    if (static_cast<int>(rank) == me) std::copy_n(part_of(i), bytes, at[static_cast<size_t>(i)]);
  }
  std::vector<int64_t> tickets;
  for (int r = 0; r < fleet.ranks->size(); ++r) {
    if (r == me || of_rank[static_cast<size_t>(r)].empty()) continue;
    tickets.push_back(fleet.ranks->post_receive(r, tag, of_rank[static_cast<size_t>(r)].data(), of_rank[static_cast<size_t>(r)].size()));
    tickets.push_back(fleet.ranks->post_send(r, tag, of_rank[static_cast<size_t>(me)].data(), of_rank[static_cast<size_t>(me)].size()));
  }
  for (int64_t ticket : tickets) ENG_TRY(fleet.ranks->wait(ticket));
  const auto sum = [&](auto zero) -> Result<std::vector<std::byte>> {
    using T = decltype(zero);
    std::vector<T*> parts;
    for (std::byte* part : at) parts.push_back(reinterpret_cast<T*>(part));
    const auto* first = reinterpret_cast<const std::byte*>(sum_parts<T>(tree, parts, bytes / sizeof(T)));
    return std::vector<std::byte>(first, first + bytes);
  };
  if (dtype == DType::kFloat32) return sum(0.0F);
  if (dtype == DType::kFloat64) return sum(0.0);
  return unsupported("a sum over shards of ", name_of(dtype), " values is not handled; float32 and float64 are");
}

}  // namespace eng

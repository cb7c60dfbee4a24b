// See simulate.h.
#include "graph/partition/simulate.h"

#include <algorithm>

namespace eng {
namespace {

// -1, 0, 1: by fit, excess, time, crossings.
int compare(const Score& a, const Score& b) {
  if (a.fits() != b.fits()) return a.fits() ? -1 : 1;
  if ((a.makespan == kCannotRun) != (b.makespan == kCannotRun)) return b.makespan == kCannotRun ? -1 : 1;
  if (a.excess != b.excess) return a.excess < b.excess ? -1 : 1;
  const double near = 1e-12 * std::max(a.makespan, b.makespan);
  if (a.makespan < b.makespan - near) return -1;
  if (a.makespan > b.makespan + near) return 1;
  return a.crossings != b.crossings ? (a.crossings < b.crossings ? -1 : 1) : 0;
}

}  // namespace

bool better(const Score& a, const Score& b) { return compare(a, b) < 0; }

bool better(const Score& a, const Placement& pa, const Score& b, const Placement& pb) {
  const int c = compare(a, b);
  return c != 0 ? c < 0 : pa < pb;
}

const Span& Timeline::task(int group, TaskKind kind) const { return tasks[static_cast<size_t>(static_cast<int>(kind) * groups + group)]; }

Simulator::Simulator(const Problem& p) : problem_(p), devices_(p.device_count()) {
  const size_t n = p.groups.size(), total = p.order.size(), devices = p.machine.devices.size();
  std::vector<int32_t> position(n * kTaskKinds);
  for (size_t i = 0; i < total; ++i) position[static_cast<size_t>(p.order[i].kind) * n + static_cast<size_t>(p.order[i].group)] = static_cast<int32_t>(i);
  auto at = [&](Task t) { return position[static_cast<size_t>(t.kind) * n + static_cast<size_t>(t.group)]; };

  // Flows by the place of their maker; -1 for those that are there from the start.
  std::vector<std::pair<int32_t, int32_t>> by_maker;
  for (size_t f = 0; f < p.flows.size(); ++f)
    by_maker.emplace_back(p.flows[f].at_start ? -1 : at({p.flows[f].group, p.flows[f].made_by}), static_cast<int32_t>(f));
  std::sort(by_maker.begin(), by_maker.end());
  for (auto [maker, id] : by_maker) {
    const Flow& f = p.flows[static_cast<size_t>(id)];
    const int32_t first = static_cast<int32_t>(readers_.size());
    for (Task reader : f.readers) readers_.push_back(at(reader));
    std::sort(readers_.begin() + first, readers_.end());
    flows_.push_back({f.bytes, first, static_cast<int32_t>(readers_.size())});
    flow_ids_.push_back(id);
    start_flows_ += maker < 0;
  }
  int32_t flow = start_flows_;
  for (size_t i = 0; i < total; ++i) {
    const Task t = p.order[i];
    const Group& g = p.groups[static_cast<size_t>(t.group)];
    FlatTask flat{t.group, flow, flow, static_cast<int32_t>(t.kind), 0, g.scratch_bytes[static_cast<int>(t.kind)]};
    while (flat.last_flow < static_cast<int32_t>(flows_.size()) && by_maker[static_cast<size_t>(flat.last_flow)].first == static_cast<int32_t>(i)) ++flat.last_flow;
    flow = flat.last_flow;
    if (t.kind == TaskKind::kForward) flat.take = g.kept_bytes;
    if (t.kind == TaskKind::kBackward) flat.take = g.gradient_bytes;
    tasks_.push_back(flat);
    double least = kCannotRun;
    for (size_t d = 0; d < devices; ++d) {
      cost_.push_back(g.seconds[static_cast<int>(t.kind)][d]);
      if (g.allowed(static_cast<int>(d))) least = std::min(least, cost_.back());
    }
    cost_.push_back(least);
  }
  ready_.resize(total);
  release_.resize(total);
  free_.resize(devices + 1);
  link_free_.resize(devices * devices);
  arrival_.resize(devices + 1);
  reduce_end_.resize(devices + 1);
  last_reader_.resize(devices + 1);
  live_.resize(devices + 1);
  peak_.resize(devices + 1);
  gradient_.resize(devices + 1);
}

// Flow `flow` is there on `device` at time `made`, when the task at position `maker` (-1: none) ends. last_reader_ stays -1
// where a copy takes no memory: on the own device of a start value (it is resident), between unplaced groups.
template <bool kRecord>
void Simulator::send(int flow, int device, double made, int maker, std::span<const int> placement, Timeline* record, Score& score) {
  const FlatFlow& f = flows_[static_cast<size_t>(flow)];
  for (int d = 0; d <= devices_; ++d) arrival_[static_cast<size_t>(d)] = -1, last_reader_[static_cast<size_t>(d)] = -1;
  arrival_[static_cast<size_t>(device)] = made;
  if (maker >= 0) {
    live_[static_cast<size_t>(device)] += f.bytes;
    last_reader_[static_cast<size_t>(device)] = maker;
  }
  for (int32_t r = f.first_reader; r < f.last_reader; ++r) {
    const int32_t reader = readers_[static_cast<size_t>(r)];
    const size_t to = static_cast<size_t>(placement[static_cast<size_t>(tasks_[static_cast<size_t>(reader)].group)]);
    double& arrival = arrival_[to];
    if (arrival < 0 && (device == devices_ || static_cast<int>(to) == devices_)) arrival = made;
    else if (arrival < 0) {
      const size_t link = static_cast<size_t>(device) * static_cast<size_t>(devices_) + to;
      const double start = std::max(link_free_[link], made);
      arrival = link_free_[link] = start + problem_.machine.links[link].seconds(f.bytes);
      live_[to] += f.bytes;
      peak_[to] = std::max(peak_[to], live_[to]);
      last_reader_[to] = reader;
      ++score.crossings;
      if constexpr (kRecord) record->transfers.push_back({flow_ids_[static_cast<size_t>(flow)], device, static_cast<int>(to), {start, arrival}});
    }
    if (last_reader_[to] >= 0) last_reader_[to] = reader;
    ready_[static_cast<size_t>(reader)] = std::max(ready_[static_cast<size_t>(reader)], arrival);
  }
  for (int d = 0; d <= devices_; ++d)
    if (const int32_t last = last_reader_[static_cast<size_t>(d)]; last >= 0) release_[static_cast<size_t>(last)] += f.bytes;
}

template <bool kRecord>
Score Simulator::run(std::span<const int> placement, Timeline* record) {
  ++runs_;
  Score score;
  std::fill(ready_.begin(), ready_.end(), 0.0);
  std::fill(release_.begin(), release_.end(), uint64_t{0});
  std::fill(free_.begin(), free_.end(), 0.0);
  std::fill(link_free_.begin(), link_free_.end(), 0.0);
  std::fill(reduce_end_.begin(), reduce_end_.end(), -1.0);
  std::fill(live_.begin(), live_.end(), uint64_t{0});
  std::fill(gradient_.begin(), gradient_.end(), uint64_t{0});
  const size_t n = problem_.groups.size();
  for (size_t g = 0; g < n; ++g) {
    live_[static_cast<size_t>(placement[g])] += problem_.groups[g].resident_bytes;
    gradient_[static_cast<size_t>(placement[g])] += problem_.groups[g].gradient_bytes;
  }
  peak_ = live_;
  if constexpr (kRecord) {
    for (size_t d = 0; d < record->memory.size(); ++d)
      record->memory[d].resident = live_[d], record->memory[d].curve = {{0, live_[d]}};
  }
  for (int f = 0; f < start_flows_; ++f)
    send<kRecord>(f, placement[static_cast<size_t>(problem_.flows[static_cast<size_t>(flow_ids_[static_cast<size_t>(f)])].group)], 0, -1, placement, record, score);

  const AllReduce& reduce = problem_.all_reduce;
  for (size_t i = 0; i < tasks_.size(); ++i) {
    const FlatTask& t = tasks_[i];
    const int device = placement[static_cast<size_t>(t.group)];
    const size_t d = static_cast<size_t>(device);
    double start = std::max(free_[d], ready_[i]);
    if (t.kind == static_cast<int32_t>(TaskKind::kUpdate) && reduce.any() && gradient_[d] > 0 && device < devices_) {
      if (reduce_end_[d] < 0) {
        const double seconds = reduce.latency + static_cast<double>(gradient_[d]) * reduce.seconds_per_byte;
        score.all_reduce = std::max(score.all_reduce, seconds);
        reduce_end_[d] = free_[d] + seconds;
      }
      start = std::max(start, reduce_end_[d]);
    }
    const double end = start + cost_[i * static_cast<size_t>(devices_ + 1) + d];
    if (device < devices_) free_[d] = end;
    live_[d] += t.take;
    for (int32_t f = t.first_flow; f < t.last_flow; ++f) send<kRecord>(f, device, end, static_cast<int>(i), placement, record, score);
    const uint64_t now = live_[d] + t.scratch;
    peak_[d] = std::max(peak_[d], now);
    live_[d] -= release_[i];
    if (t.kind == static_cast<int32_t>(TaskKind::kBackward)) live_[d] -= problem_.groups[static_cast<size_t>(t.group)].kept_bytes;
    if (t.kind == static_cast<int32_t>(TaskKind::kUpdate)) live_[d] -= problem_.groups[static_cast<size_t>(t.group)].gradient_bytes;
    else score.backward_end = std::max(score.backward_end, end);
    score.makespan = std::max(score.makespan, end);
    if constexpr (kRecord) {
      record->tasks[static_cast<size_t>(t.kind) * n + static_cast<size_t>(t.group)] = {start, end};
      if (end > start || now != record->memory[d].curve.back().bytes) record->memory[d].curve.push_back({start, now});
      if (live_[d] != now) record->memory[d].curve.push_back({end, live_[d]});
    }
  }
  score.makespan += (problem_.shards - 1) * score.backward_end;
  for (size_t d = 0; d < problem_.machine.devices.size(); ++d)
    if (const auto& limit = problem_.machine.devices[d].memory_limit; limit && peak_[d] > *limit) score.excess += peak_[d] - *limit;
  return score;
}

template Score Simulator::run<false>(std::span<const int>, Timeline*);

Timeline Simulator::timeline(std::span<const int> placement) {
  Timeline t;
  t.groups = problem_.group_count();
  t.tasks.resize(problem_.groups.size() * kTaskKinds);
  t.memory.resize(problem_.machine.devices.size());
  t.score = run<true>(placement, &t);
  for (size_t d = 0; d < t.memory.size(); ++d) t.memory[d].peak = peak_[d], t.memory[d].limit = problem_.machine.devices[d].memory_limit;
  std::stable_sort(t.transfers.begin(), t.transfers.end(), [](const TimelineTransfer& a, const TimelineTransfer& b) {
    return std::tuple(a.span.start, a.from, a.to) < std::tuple(b.span.start, b.from, b.to);
  });
  return t;
}

}  // namespace eng

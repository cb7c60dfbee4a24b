// See predict.h. Time goes from event to event (a node ends, a value arrives); between two events every running node advances at the
// speed that belongs to the number of devices that are busy.
#include "engine/exec/predict.h"

#include <algorithm>
#include <limits>
#include <unordered_map>

#include "graph/partition/cut.h"

namespace eng {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

bool is(const Node& n, const char* op) { return n.domain == kEngineDomain && n.op_type == op; }
uint64_t bytes_of(const Value& v) { return static_cast<uint64_t>(element_count(v.shape)) * size_of(v.dtype); }

class Run {
 public:
  Run(const Graph& graph, const std::vector<NodeId>& order, const StepCosts& costs)
      : g_(graph), costs_(costs), devices_(static_cast<size_t>(costs.machine.device_count())), spans_(static_cast<size_t>(graph.node_count()), Span{-1, -1}) {
    for (NodeId n : order) devices_[static_cast<size_t>(graph.node(n).place)].queue.push_back(n);
  }

  Status run();
  const std::vector<Span>& spans() const { return spans_; }
  double end() const { return now_; }
  double busy(size_t device) const { return devices_[device].busy; }

 private:
  struct Device {
    std::vector<NodeId> queue;
    size_t next = 0;
    bool running = false;
    double alone = 0, together = 0;  // seconds of the running node
    double left = 0;                 // part of it, 1 to 0
    double busy = 0;
  };
  double ready_at(NodeId n) const;
  void start(Device& d, NodeId n);
  void start_all();
  double seconds(const Device& d, int busy) const {
    const double others = devices_.size() > 1 ? static_cast<double>(busy - 1) / static_cast<double>(devices_.size() - 1) : 0;
    return d.alone + (d.together - d.alone) * others;
  }

  const Graph& g_;
  const StepCosts& costs_;
  std::vector<Device> devices_;
  std::vector<Span> spans_;  // end < 0: not over
  double now_ = 0;
};

// When a node may begin, as far as other devices are concerned: a Recv after its Send has ended and the link was passed.
double Run::ready_at(NodeId n) const {
  const Node& node = g_.node(n);
  if (!is(node, "Recv")) return 0;
  const NodeId send = g_.value(node.inputs[0]).producer;
  const Span& made = spans_[static_cast<size_t>(send)];
  if (made.end < 0) return kNever;
  return made.end + costs_.machine.link(g_.node(send).place, node.place).seconds(bytes_of(g_.value(node.inputs[0])));
}

void Run::start(Device& d, NodeId n) {
  const Node& node = g_.node(n);
  d.running = true;
  d.left = 1;
  d.alone = d.together = 0;
  spans_[static_cast<size_t>(n)].start = now_;
  if (is(node, "Recv")) {  // a shared weight is copied on the reader's stream
    const ValueId original = g_.node(g_.value(node.inputs[0]).producer).inputs[0];
    const Role role = g_.value(original).role;
    const double rate = costs_.machine.devices[static_cast<size_t>(node.place)].bytes_per_second;
    if ((role == Role::kParameter || role == Role::kState) && rate > 0) d.alone = d.together = 2 * static_cast<double>(bytes_of(g_.value(original))) / rate;
  } else if (!is(node, "Send")) {
    d.alone = costs_.alone(g_, n, node.place).seconds;
    d.together = std::max(d.alone, costs_.together(g_, n, node.place).seconds);
  }
}

void Run::start_all() {
  for (bool again = true; again;) {
    again = false;
    for (Device& d : devices_) {
      if (d.running || d.next == d.queue.size()) continue;
      const NodeId n = d.queue[d.next];
      if (ready_at(n) > now_) continue;
      start(d, n);
      again = true;
      if (d.alone > 0) continue;
      spans_[static_cast<size_t>(n)].end = now_;  // takes no time: over at once
      d.running = false;
      ++d.next;
    }
  }
}

Status Run::run() {
  for (;;) {
    start_all();
    const int busy = static_cast<int>(std::count_if(devices_.begin(), devices_.end(), [](const Device& d) { return d.running; }));
    double step = kNever;
    bool over = true;
    for (const Device& d : devices_) {
      over &= d.next == d.queue.size();
      if (d.running) step = std::min(step, d.left * seconds(d, busy));
      else if (d.next < d.queue.size()) step = std::min(step, ready_at(d.queue[d.next]) - now_);
    }
    if (over) return {};
    if (step == kNever) return internal_error("the devices of a placed step wait for each other");
    now_ += step;
    for (Device& d : devices_) {
      if (!d.running) continue;
      const double whole = seconds(d, busy);
      d.busy += step;
      d.left -= step / whole;
      if (d.left * whole > 1e-12) continue;
      spans_[static_cast<size_t>(d.queue[d.next])].end = now_;
      d.running = false;
      ++d.next;
    }
  }
}

}  // namespace

Result<StepCosts> measured_step_costs(const std::vector<std::shared_ptr<Device>>& devices, const std::vector<const Graph*>& graphs, CostOptions options) {
  StepCosts c;
  options.concurrent = 1;
  ENG_ASSIGN(c.alone, measured_costs(devices, graphs, options));
  options.concurrent = static_cast<int>(devices.size());
  ENG_ASSIGN(c.together, measured_costs(devices, graphs, options));
  ENG_ASSIGN(c.machine, measured_machine(devices, options));
  ENG_ASSIGN(c.overhead, measured_overhead(devices, options));
  return c;
}

Result<StepPrediction> predict_step(const Graph& step, const StepCosts& costs) {
  Graph g = step;
  ENG_ASSIGN(const std::vector<NodeId> order, g.topological_order());
  place_rest(g, order);
  for (NodeId n : order)
    if (g.node(n).place >= costs.machine.device_count()) return internal_error(g.label(n), " is placed on device ", g.node(n).place, " of ", costs.machine.device_count());
  const Cut parts = cut(g, order, [](ValueId) { return -1; });
  Run run(g, parts.order, costs);
  ENG_TRY(run.run());
  StepPrediction out;
  out.seconds = run.end() + costs.overhead;
  for (NodeId n : order) {
    out.nodes.push_back(n);
    out.spans.push_back(run.spans()[static_cast<size_t>(n)]);
  }
  for (int d = 0; d < costs.machine.device_count(); ++d) out.busy.push_back(run.busy(static_cast<size_t>(d)));
  return out;
}

}  // namespace eng

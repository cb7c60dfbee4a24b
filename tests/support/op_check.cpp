// See op_check.h. Nodes run on the CPU, or on the device that the environment variable ENGINE_TEST_DEVICE names (its plugin is found by
// ENGINE_BACKEND_PATH); what that device has no kernel for runs on the CPU, and the lists of both are told at the end.
#include "tests/support/op_check.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "engine/exec/evaluate.h"
#include "engine/plugin/loader.h"
#include "graph/autodiff/autodiff.h"
#include "graph/ops/op.h"
#include "tests/support/reference/reference.h"

namespace eng::test {

uint64_t Random::next() {  // splitmix64
  uint64_t z = (state_ += 0x9e3779b97f4a7c15ull);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}
int64_t Random::between(int64_t low, int64_t high) { return low + static_cast<int64_t>(next() % static_cast<uint64_t>(high - low + 1)); }
double Random::uniform(double low, double high) { return low + (high - low) * static_cast<double>(next() >> 11) * 0x1p-53; }

OpInput real(Shape shape, double low, double high) {
  OpInput i;
  i.shape = std::move(shape);
  i.low = low;
  i.high = high;
  return i;
}
OpInput ints(const std::vector<int64_t>& values) {
  OpInput i;
  i.shape = {static_cast<int64_t>(values.size())};
  i.dtype = DType::kInt64;
  i.values.assign(values.begin(), values.end());
  i.constant = true;
  return i;
}
OpInput given(Shape shape, std::vector<double> values, DType dtype) {
  OpInput i;
  i.shape = std::move(shape);
  i.values = std::move(values);
  i.dtype = dtype;
  return i;
}
OpInput absent() {
  OpInput i;
  i.absent = true;
  return i;
}
Attributes attrs(std::initializer_list<std::pair<const char*, Attribute>> list) {
  Attributes a;
  for (const auto& [name, value] : list) a.set(name, value);
  return a;
}

namespace {

std::shared_ptr<Device> open_or_throw(const std::string& name) {
  auto d = Device::open(name, {.threads = 2});
  if (!d.ok()) throw std::runtime_error(d.status().message());
  return *d;
}

// What ran where, told at the end where the tests run on another device than the CPU.
struct OtherDevice {
  std::string name;
  std::set<std::string> ran, left_out;
  ~OtherDevice() {
    if (name.empty()) return;
    auto list = [](const std::set<std::string>& words) {
      std::string text;
      for (const std::string& w : words) text += " " + w;
      return text;
    };
    std::fprintf(stderr, "%zu operators ran on %s:%s\n%zu are left to the CPU:%s\n", ran.size(), name.c_str(), list(ran).c_str(), left_out.size(), list(left_out).c_str());
  }
};
OtherDevice& other_device() {
  static OtherDevice other;
  return other;
}

}  // namespace

std::shared_ptr<Device> cpu_device() {
  static const std::shared_ptr<Device> device = open_or_throw("cpu:0");
  return device;
}

static std::shared_ptr<Device> test_device() {
  static const std::shared_ptr<Device> device = [] {
    const char* name = std::getenv("ENGINE_TEST_DEVICE");
    if (!name || !*name) return cpu_device();
    const Status loaded = load_backends("");
    if (!loaded.ok()) throw std::runtime_error(loaded.message());
    other_device().name = name;
    return open_or_throw(name);
  }();
  return device;
}

// On the tests' device; what it has no kernel for is left to the CPU.
static Result<std::vector<Tensor>> evaluate_on_test_device(const Graph& g, NodeId n, const std::vector<Tensor>& inputs) {
  auto results = evaluate_node(test_device(), g, n, inputs);
  if (test_device() == cpu_device()) return results;
  const bool left_out = !results.ok() && results.status().code() == Code::kUnsupported;
  (left_out ? other_device().left_out : other_device().ran).insert((g.node(n).domain.empty() ? "" : g.node(n).domain + "::") + g.node(n).op_type);
  return left_out ? evaluate_node(cpu_device(), g, n, inputs) : std::move(results);
}

static std::set<std::string>& exercised() {
  static std::set<std::string> all;
  return all;
}
const std::set<std::string>& exercised_ops() { return exercised(); }

namespace {

std::string describe(const OpCase& c) {
  std::string s = (c.domain.empty() ? "" : c.domain + "::") + c.op;
  for (const OpInput& i : c.inputs) s += i.absent ? " -" : " " + to_string(i.shape);
  for (const auto& [name, value] : c.attributes) {
    s += " " + name + "=";
    if (auto* n = std::get_if<int64_t>(&value)) s += std::to_string(*n);
    else if (auto* f = std::get_if<float>(&value)) s += std::to_string(*f);
    else if (auto* t = std::get_if<std::string>(&value)) s += *t;
    else if (auto* l = std::get_if<std::vector<int64_t>>(&value)) s += to_string(*l);
    else s += "...";
  }
  return s + " seed=" + std::to_string(c.seed);
}

struct Built {
  Graph graph;
  NodeId node = kNoNode;
  std::vector<ValueId> inputs, outputs;   // of the node
  std::vector<ValueId> wanted, gradients; // differentiated inputs
  std::map<ValueId, RefTensor> feeds;
  Status status;
};

// The case as a graph; floats as `real_type`. Content is rounded to float32 in both precisions, so both compute the same thing.
Built build(const OpCase& c, DType real_type, bool with_gradient, const std::vector<double>* weights = nullptr) {
  Built b;
  Random random(c.seed);
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    const OpInput& in = c.inputs[i];
    if (in.absent) { b.inputs.push_back(kNoValue); continue; }
    RefTensor t(in.dtype == DType::kFloat32 && !in.keep_type ? real_type : in.dtype, in.shape);
    for (int64_t k = 0; k < t.count(); ++k) {
      if (!in.values.empty()) t[k] = in.values[static_cast<size_t>(k)];
      else if (is_floating(in.dtype)) t[k] = random.uniform(in.low, in.high);
      else t[k] = static_cast<double>(random.between(static_cast<int64_t>(in.low), static_cast<int64_t>(in.high)));
      if (is_floating(t.dtype)) t[k] = static_cast<double>(static_cast<float>(t[k]));
    }
    ValueId v;
    if (in.constant) {
      v = b.graph.add_tensor(cat("input", i), to_tensor(t, t.dtype), Role::kConstant);
    } else {
      v = b.graph.add_value(cat("input", i), t.dtype, in.shape);
      b.graph.value(v).role = Role::kInput;
      b.graph.inputs.push_back(v);
      b.feeds[v] = t;
      if (is_floating(t.dtype) && in.differentiate) b.wanted.push_back(v);
    }
    b.inputs.push_back(v);
  }
  Builder builder(b.graph);
  b.outputs = builder.ops(c.domain, c.op, b.inputs, c.outputs, c.attributes);
  b.status = builder.status();
  if (!b.status.ok()) return b;
  b.node = b.graph.node_count() - 1;
  if (!with_gradient) return b;
  std::vector<ValueId> ys, dys;
  for (size_t i = 0; i < b.outputs.size(); ++i) {
    ValueId y = b.outputs[i];
    if (y == kNoValue || !is_floating(b.graph.value(y).dtype)) continue;
    if (!c.differentiate_outputs.empty() && !c.differentiate_outputs[i]) continue;
    RefTensor dy(b.graph.value(y).dtype, b.graph.value(y).shape);
    for (int64_t k = 0; k < dy.count(); ++k)
      dy[k] = weights ? (*weights)[static_cast<size_t>(k)] : static_cast<double>(static_cast<float>(random.uniform(-1, 1)));
    ValueId v = b.graph.add_value(cat("dy", i), dy.dtype, dy.shape);
    b.graph.value(v).role = Role::kInput;
    b.graph.inputs.push_back(v);
    b.feeds[v] = dy;
    ys.push_back(y);
    dys.push_back(v);
  }
  auto gradients = differentiate_from(b.graph, ys, dys, b.wanted);
  if (!gradients.ok()) b.status = gradients.status();
  else b.gradients = *gradients;
  return b;
}

void compare(const Graph& g, ValueId v, const Tensor& got, const RefTensor& wanted, double rtol, const std::string& what) {
  REQUIRE_MESSAGE(got.shape() == wanted.shape, what);
  double scale = 1, worst = 0;
  int64_t at = 0;
  for (double d : wanted.v) if (std::isfinite(d)) scale = std::max(scale, std::fabs(d));
  for (int64_t i = 0; i < wanted.count(); ++i) {
    const double a = got.at(i), e = wanted[i];
    if (std::isnan(a) && std::isnan(e)) continue;
    if (a == e) continue;
    const double error = std::fabs(a - e);
    if (!(error <= worst)) { worst = std::isnan(error) ? INFINITY : error; at = i; }
  }
  CHECK_MESSAGE(worst <= rtol * scale, what, ": '", g.value(v).name, "' element ", at, " is ", got.at(at), ", wanted ", wanted.v.empty() ? 0.0 : wanted[at]);
}

// A row-major tensor's bytes rearranged into channels-last order (inverse: back).
Tensor rearrange(const Tensor& t, bool back) {
  Tensor out(t.dtype(), t.shape());
  const auto to = channels_last_strides(t.shape());
  const size_t size = size_of(t.dtype());
  for (int64_t i = 0; i < t.element_count(); ++i) {
    const auto at = unravel(i, t.shape());
    int64_t j = 0;
    for (size_t k = 0; k < at.size(); ++k) j += at[k] * to[k];
    const int64_t from_index = back ? j : i, to_index = back ? i : j;
    std::memcpy(out.mutable_bytes() + static_cast<size_t>(to_index) * size, t.bytes() + static_cast<size_t>(from_index) * size, size);
  }
  return out;
}

// Marks the values that the layout pass would make channels-last; false where the operator has none.
bool set_channels_last(Graph& g, NodeId n) {
  const OpDef* op = find_op(g.node(n).domain, g.node(n).op_type);
  if (!op || op->layout == LayoutRule::kRowMajor) return false;
  const std::vector<ValueId> inputs = g.node(n).inputs, outputs = g.node(n).outputs;
  size_t rank = 0;
  for (ValueId v : outputs) if (v != kNoValue) rank = std::max(rank, g.value(v).shape.size());
  for (ValueId v : inputs) if (v != kNoValue && op->layout == LayoutRule::kChannelsLast) rank = std::max(rank, g.value(v).shape.size());
  if (rank < 3 || rank > 5) return false;
  bool any = false;
  auto mark = [&](ValueId v, bool data) {
    if (v == kNoValue || !data || g.value(v).shape.size() != rank) return;
    g.value(v).layout = Layout::kChannelsLast;
    any = true;
  };
  for (size_t i = 0; i < inputs.size(); ++i) mark(inputs[i], slot_of(*op, static_cast<int>(i)) == Slot::kData);
  for (ValueId v : outputs) mark(v, true);
  return any;
}

// Runs every node of the case's graph; in channels-last order where `channels_last` and the node allows.
Result<std::map<ValueId, Tensor>> run_graph(Graph g, const std::map<ValueId, RefTensor>& feeds, bool channels_last) {
  std::map<ValueId, Tensor> content;
  for (const auto& [v, t] : feeds) content[v] = to_tensor(t, t.dtype);
  ENG_ASSIGN(std::vector<NodeId> order, g.topological_order());
  for (NodeId n : order) {
    Graph one = g;  // layouts are set for this node alone; between nodes tensors are row-major
    const bool last = channels_last && set_channels_last(one, n);
    std::vector<Tensor> inputs;
    for (ValueId v : g.node(n).inputs) {
      Tensor t = v == kNoValue ? Tensor() : content.count(v) ? content[v] : *g.value(v).data;
      inputs.push_back(last && v != kNoValue && one.value(v).layout == Layout::kChannelsLast ? rearrange(t, false) : t);
    }
    ENG_ASSIGN(std::vector<Tensor> results, evaluate_on_test_device(one, n, inputs));
    exercised().insert((g.node(n).domain.empty() ? "" : g.node(n).domain + "::") + g.node(n).op_type);
    for (size_t i = 0; i < results.size(); ++i) {
      ValueId v = g.node(n).outputs[i];
      if (v != kNoValue) content[v] = last && one.value(v).layout == Layout::kChannelsLast ? rearrange(results[i], true) : results[i];
    }
  }
  return content;
}

void check_values(const OpCase& c, bool with_gradient, const char* what) {
  const std::string name = describe(c);
  Built b = build(c, DType::kFloat32, with_gradient), wide = build(c, DType::kFloat64, with_gradient);
  REQUIRE_MESSAGE(b.status.ok(), name, ": ", b.status.message());
  REQUIRE_MESSAGE(wide.status.ok(), name, ": ", wide.status.message());
  auto wanted = interpret(wide.graph, wide.feeds);
  REQUIRE_MESSAGE(wanted.ok(), name, ": ", wanted.status().message());
  for (bool channels_last : {false, true}) {
    Graph probe = b.graph;
    bool any = false;
    for (NodeId n : probe.live_nodes()) any |= set_channels_last(probe, n);
    if (channels_last && !any) continue;
    auto got = run_graph(b.graph, b.feeds, channels_last);
    REQUIRE_MESSAGE(got.ok(), name, channels_last ? " channels-last: " : ": ", got.status().message());
    const std::vector<ValueId>&list = with_gradient ? b.gradients : b.outputs, &wide_list = with_gradient ? wide.gradients : wide.outputs;
    for (size_t i = 0; i < list.size(); ++i) {
      if (list[i] == kNoValue) continue;
      const Tensor t = got->count(list[i]) ? (*got)[list[i]] : *b.graph.value(list[i]).data;
      compare(b.graph, list[i], t, (*wanted)[wide_list[i]], c.rtol, name + " " + what + (channels_last ? " channels-last" : ""));
    }
  }
}

double weighted_sum(const Built& b, const std::map<ValueId, RefTensor>& feeds) {
  auto values = interpret(b.graph, feeds);
  if (!values.ok()) return NAN;
  double sum = 0;
  for (size_t i = 0; i < b.outputs.size(); ++i) {
    ValueId dy = b.graph.find_value(cat("dy", i));
    if (dy == kNoValue) continue;
    const RefTensor &y = (*values)[b.outputs[i]], &w = feeds.at(dy);
    for (int64_t k = 0; k < y.count(); ++k) sum += y[k] * w[k];
  }
  return sum;
}

}  // namespace

double gradient_error(const OpCase& c) {
  Built full = build(c, DType::kFloat64, true);
  REQUIRE_MESSAGE(full.status.ok(), describe(c), ": ", full.status.message());
  auto values = interpret(full.graph, full.feeds);
  REQUIRE_MESSAGE(values.ok(), describe(c), ": ", values.status().message());
  // Finite differences run the forward node alone.
  Built forward = full;
  for (NodeId n = 0; n < forward.graph.node_count(); ++n)
    if (n != full.node) forward.graph.remove_node(n);
  double worst = 0;
  for (size_t i = 0; i < full.wanted.size(); ++i) {
    const ValueId v = full.wanted[i];
    double difference = 0, norm_ad = 0, norm_fd = 0;
    for (int64_t k = 0; k < full.feeds[v].count(); ++k) {
      auto feeds = full.feeds;
      const double x = feeds[v][k], h = 1e-5 * std::max(1.0, std::fabs(x));
      feeds[v][k] = x + h;
      const double up = weighted_sum(forward, feeds);
      feeds[v][k] = x - h;
      const double down = weighted_sum(forward, feeds);
      const double fd = (up - down) / (2 * h);
      const double ad = full.gradients[i] == kNoValue ? 0 : (*values)[full.gradients[i]][k];
      difference += (fd - ad) * (fd - ad);
      norm_fd += fd * fd;
      norm_ad += ad * ad;
    }
    const double scale = std::max({std::sqrt(norm_fd), std::sqrt(norm_ad), 1e-4});
    const double error = std::sqrt(difference) / scale;
    worst = std::isnan(error) ? INFINITY : std::max(worst, error);
  }
  return worst;
}

void check_forward(const OpCase& c) { check_values(c, false, "forward"); }
void check_backward(const OpCase& c) { check_values(c, true, "gradient"); }
static std::map<std::string, MeasuredGradient>& measured() {
  static std::map<std::string, MeasuredGradient> all;
  return all;
}
const std::map<std::string, MeasuredGradient>& measured_gradients() { return measured(); }
void check_gradient(const OpCase& c, double tolerance) {
  const double error = gradient_error(c);
  MeasuredGradient& m = measured()[(c.domain.empty() ? "" : c.domain + "::") + c.op];
  m.worst = std::max(m.worst, error);
  ++m.cases;
  CHECK_MESSAGE(error <= tolerance, describe(c), ": gradient differs from finite differences by ", error);
}

void check_op(const OpCase& c) {
  check_forward(c);
  const OpDef* op = find_op(c.domain, c.op);
  if (!op || !op->gradient) return;
  check_gradient(c);
  check_backward(c);
}

std::vector<Tensor> run_on_cpu(const OpCase& c) {
  Built b = build(c, DType::kFloat32, false);
  REQUIRE_MESSAGE(b.status.ok(), describe(c), ": ", b.status.message());
  auto got = run_graph(b.graph, b.feeds, false);
  REQUIRE_MESSAGE(got.ok(), describe(c), ": ", got.status().message());
  std::vector<Tensor> out;
  for (ValueId v : b.outputs) out.push_back(v == kNoValue ? Tensor() : (*got)[v]);
  return out;
}

Tensor gradient_on_cpu(const OpCase& c, int input, const std::vector<double>& weights) {
  OpCase one = c;
  for (size_t i = 0; i < one.inputs.size(); ++i) one.inputs[i].differentiate = static_cast<int>(i) == input;
  Built b = build(one, DType::kFloat32, true, &weights);
  REQUIRE_MESSAGE(b.status.ok(), describe(c), ": ", b.status.message());
  auto got = run_graph(b.graph, b.feeds, false);
  REQUIRE_MESSAGE(got.ok(), describe(c), ": ", got.status().message());
  return (*got)[b.gradients[0]];
}

}  // namespace eng::test

// Compiled programs against the float64 reference interpreter: values, updates in place and by copy, sharing of memory in random
// graphs, nothing allocated in a step, planned memory against what the device gave.
#include <doctest/doctest.h>

#include "engine/exec/program.h"
#include "graph/ops/op.h"
#include "tests/support/allocation_counter.h"
#include "tests/support/counting_backend.h"
#include "tests/support/op_check.h"
#include "tests/support/reference/reference.h"

using namespace eng;
using namespace eng::test;

namespace {

ValueId add_input(Graph& g, const std::string& name, Shape shape, DType type = DType::kFloat32) {
  ValueId v = g.add_value(name, type, std::move(shape));
  g.value(v).role = Role::kInput;
  g.inputs.push_back(v);
  return v;
}

Tensor random_tensor(Random& r, Shape shape, double low = -1, double high = 1) {
  Tensor t(DType::kFloat32, std::move(shape));
  for (int64_t i = 0; i < t.element_count(); ++i) t.set(i, r.uniform(low, high));
  return t;
}

void check_close(const Tensor& got, const RefTensor& wanted, const std::string& what, double tolerance = 1e-5) {
  REQUIRE(got.element_count() == wanted.count());
  double scale = 1;
  for (double w : wanted.v) scale = std::max(scale, std::abs(w));
  for (int64_t i = 0; i < got.element_count(); ++i)
    if (!(std::abs(got.at(i) - wanted[i]) <= tolerance * scale)) {
      FAIL_CHECK(what, " element ", i, ": got ", got.at(i), ", wanted ", wanted[i]);
      return;
    }
}

// The program's values against the interpreter's, for `runs` steps whose updates the test applies itself.
struct Twin {
  Graph graph;
  std::shared_ptr<Device> device;
  std::shared_ptr<StateStore> store;
  std::unique_ptr<Program> program;
  std::map<ValueId, RefTensor> reference;  // feeds and the current states

  Twin(Graph g, const std::vector<ValueId>& fetches, const ProgramOptions& options = {}) : graph(std::move(g)), device(cpu_device()) {
    store = std::make_shared<StateStore>(device);
    auto compiled = Program::compile(graph, device, store, fetches, options);
    REQUIRE_MESSAGE(compiled.ok(), compiled.status().message());
    program = std::move(*compiled);
  }
  void feed(ValueId v, const Tensor& t) {
    held_.push_back(t);
    Status s = program->feed(v, t);
    REQUIRE_MESSAGE(s.ok(), s.message());
    reference[v] = to_reference(t);
  }
  void run_and_compare(const std::vector<ValueId>& fetches) {
    auto values = interpret(graph, reference);
    REQUIRE_MESSAGE(values.ok(), values.status().message());
    REQUIRE(program->run().ok());
    for (ValueId v : fetches) {
      Tensor got;
      Status s = program->fetch(v, got);
      REQUIRE_MESSAGE(s.ok(), s.message());
      check_close(got, (*values)[v], graph.value(v).name);
    }
    for (const auto& [state, next] : graph.updates) reference[state] = (*values)[next];
    for (const auto& [state, next] : graph.updates) {
      auto got = store->get(graph.value(state).name);
      REQUIRE(got.ok());
      check_close(*got, reference[state], "state " + graph.value(state).name);
    }
  }

 private:
  std::vector<Tensor> held_;
};

// conv - relu - add - conv over channels-last data, then a row-major dense part; both layouts occur.
Graph conv_graph(ValueId* x, std::vector<ValueId>* fetches) {
  Graph g;
  Random r(4);
  *x = add_input(g, "x", {2, 3, 8, 6});
  Builder b(g);
  Attributes same = attrs({{"pads", std::vector<int64_t>{1, 1, 1, 1}}});
  ValueId a = b.op("Conv", {*x, g.add_tensor("w1", random_tensor(r, {5, 3, 3, 3}), Role::kParameter)}, same);
  ValueId relu = b.op("Relu", {a});
  ValueId c = b.op("Conv", {relu, g.add_tensor("w2", random_tensor(r, {5, 5, 3, 3}), Role::kParameter)}, same);
  ValueId sum = b.op("Add", {c, relu});
  ValueId scaled = b.op("Mul", {sum, g.add_tensor("s", random_tensor(r, {5, 1, 1}), Role::kConstant)});
  ValueId shifted = b.op("Add", {scaled, g.add_tensor("c", random_tensor(r, {1, 5, 8, 6}), Role::kConstant)});
  ValueId flat = b.op("Reshape", {shifted, b.ints({2, 240})});
  ValueId y = b.op("MatMul", {flat, g.add_tensor("w3", random_tensor(r, {240, 4}), Role::kParameter)});
  REQUIRE(b.status().ok());
  *fetches = {y, sum, relu};
  return g;
}

}  // namespace

TEST_CASE("program: convolutions in both layouts give the reference's values") {
  for (bool layouts : {true, false})
    for (bool keep_all : {true, false}) {
      ValueId x;
      std::vector<ValueId> fetches;
      Graph g = conv_graph(&x, &fetches);
      Twin twin(std::move(g), fetches, {.keep_all = keep_all, .assign_layouts = layouts});
      Random r(9);
      for (int step = 0; step < 2; ++step) {
        twin.feed(x, random_tensor(r, {2, 3, 8, 6}));
        twin.run_and_compare(fetches);
      }
      int reorders = 0;
      for (const KernelRow& k : twin.program->kernels()) reorders += k.op == "Reorder";
      if (!layouts) CHECK(reorders == 0);
      else CHECK(reorders > 0);
    }
}

TEST_CASE("program: updates in place, by copy, and of states that are read elsewhere") {
  Graph g;
  Random r(2);
  ValueId x = add_input(g, "x", {6});
  ValueId w = g.add_tensor("w", random_tensor(r, {6}), Role::kParameter);
  ValueId m = g.add_tensor("m", random_tensor(r, {6}), Role::kState);
  ValueId last = g.add_tensor("last", random_tensor(r, {6}), Role::kState);
  ValueId swap_a = g.add_tensor("swap_a", random_tensor(r, {6}), Role::kState);
  ValueId swap_b = g.add_tensor("swap_b", random_tensor(r, {6}), Role::kState);
  Builder b(g);
  ValueId y = b.op("Mul", {x, w});
  b.set_origin(Phase::kUpdate, kNoNode);
  ValueId m2 = b.op("Add", {b.op("Mul", {m, b.scalar(DType::kFloat32, 0.5)}), y});
  ValueId w2 = b.op("Sub", {w, m2});
  b.set_origin(Phase::kForward, kNoNode);
  ValueId late = b.op("Mul", {b.op("Exp", {y}), w});  // reads w's old content after the update could have run
  ValueId copied = b.op("Identity", {y});             // a state that takes a value that lives elsewhere
  ValueId a2 = b.op("Add", {swap_b, x}), b2 = b.op("Sub", {swap_a, x});  // each reads the other's old content
  REQUIRE(b.status().ok());
  g.updates = {{w, w2}, {m, m2}, {last, copied}, {swap_a, a2}, {swap_b, b2}};
  Twin twin(g, {late, y});
  for (int step = 0; step < 4; ++step) {
    twin.feed(x, random_tensor(r, {6}));
    twin.run_and_compare({late, y});
  }
  bool w_first = false;  // the update waits for the late reader
  for (const KernelRow& k : twin.program->kernels()) {
    if (k.op == "Sub" && k.phase == Phase::kUpdate) w_first = true;
    if (k.op == "Exp") CHECK_FALSE(w_first);
  }
}

TEST_CASE("program: random graphs that share memory give the reference's values") {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    CAPTURE(seed);
    Random r(seed);
    Graph g;
    Builder b(g);
    const bool images = r.between(0, 1) == 1;
    const Shape shape = images ? Shape{2, 3, 4, 5} : Shape{4, 6};
    std::vector<ValueId> values{add_input(g, "x", shape), add_input(g, "y", shape)};
    const std::vector<ValueId> inputs = values;
    std::vector<ValueId> states;
    for (int i = 0; i < 3; ++i) states.push_back(g.add_tensor("s" + std::to_string(i), random_tensor(r, shape), Role::kState));
    values.insert(values.end(), states.begin(), states.end());
    for (int i = 0; i < 25; ++i) {
      ValueId p = r.pick(values), q = r.pick(values);
      b.set_origin(r.between(0, 3) ? Phase::kForward : Phase::kUpdate, kNoNode);
      switch (r.between(0, 6)) {
        case 0: values.push_back(b.op("Relu", {p})); break;
        case 1: values.push_back(b.op("Identity", {p})); break;
        case 2: values.push_back(b.op("Mul", {b.op("Tanh", {p}), q})); break;
        case 3: values.push_back(b.op("Neg", {p})); break;
        case 4: values.push_back(b.op("Reshape", {b.op("Reshape", {p, b.ints({-1})}), b.ints(shape)})); break;
        case 5:
          if (images) {
            values.push_back(b.op("Conv", {p, g.add_tensor("w", random_tensor(r, {3, 3, 1, 1}, -0.5, 0.5), Role::kParameter)}));
            break;
          }
          [[fallthrough]];
        default: values.push_back(b.op("Add", {b.op("Tanh", {p}), q})); break;
      }
    }
    REQUIRE(b.status().ok());
    for (ValueId s : states) {
      ValueId next;
      do next = r.pick(values);
      while (g.value(next).producer == kNoNode);
      bool taken = false;
      for (auto [state, other] : g.updates) taken |= other == next;
      if (!taken) g.updates.emplace_back(s, next);
    }
    std::vector<ValueId> fetches;
    for (int i = 0; i < 4; ++i) {
      ValueId v = r.pick(values);
      if (g.value(v).producer != kNoNode) fetches.push_back(v);
    }
    Twin twin(g, fetches);
    for (int step = 0; step < 3; ++step) {
      for (ValueId v : inputs) twin.feed(v, random_tensor(r, shape));
      twin.run_and_compare(fetches);
    }
  }
}

namespace {

// Allocations of 50 steps after two.
uint64_t allocations_of_steps(Twin& twin, ValueId input, const Shape& shape, ValueId fetched) {
  Random r(1);
  const Tensor content = random_tensor(r, shape);
  Tensor result;
  auto step = [&] { return twin.program->feed(input, content).ok() && twin.program->run().ok() && twin.program->fetch(fetched, result).ok(); };
  REQUIRE((step() && step()));
  const uint64_t before = allocations_so_far();
  bool fine = true;
  for (int i = 0; i < 50; ++i) fine = fine && step();
  const uint64_t after = allocations_so_far();
  CHECK(fine);
  const Tensor one(DType::kFloat32, Shape(static_cast<size_t>(r.between(1, 3)), 1));  // and the counter does count
  CHECK(allocations_so_far() > after);
  return after - before;
}

}  // namespace

TEST_CASE("program: a step of our own kernels, updates included, allocates nothing after the second") {
  Graph g;
  Random r(5);
  ValueId x = add_input(g, "x", {3, 40});
  ValueId w = g.add_tensor("w", random_tensor(r, {3, 40}), Role::kParameter);
  ValueId copied = g.add_tensor("copied", random_tensor(r, {3, 40}), Role::kState);
  Builder b(g);
  ValueId y = b.op("Tanh", {b.op("Mul", {x, w})});
  ValueId sum = b.op("Reshape", {b.op("Add", {y, copied}), b.ints({120})});
  b.set_origin(Phase::kUpdate, kNoNode);
  g.updates = {{w, b.op("Sub", {w, y})}, {copied, b.op("Identity", {x})}};
  REQUIRE(b.status().ok());
  Twin twin(std::move(g), {sum});
  CHECK(allocations_of_steps(twin, x, {3, 40}, sum) == 0);
}

TEST_CASE("program: a step with convolutions and products allocates nothing after the second outside oneDNN" * doctest::skip(!onednn_is_counted_apart())) {
  ValueId x;
  std::vector<ValueId> fetches;
  Graph g = conv_graph(&x, &fetches);
  Twin twin(std::move(g), {fetches[0]});
  CHECK(allocations_of_steps(twin, x, {2, 3, 8, 6}, fetches[0]) == 0);
}

TEST_CASE("program: the planned memory is what the device gives, and steps take no more") {
  ValueId x;
  std::vector<ValueId> fetches;
  Graph g = conv_graph(&x, &fetches);
  auto device = Device::open(counting_backend(), 0, {.threads = 2});
  REQUIRE(device.ok());
  const uint64_t at_start = device_allocations().bytes;
  auto store = std::make_shared<StateStore>(*device);
  auto program = Program::compile(g, *device, store, {fetches[0]});
  REQUIRE_MESSAGE(program.ok(), program.status().message());
  const MemoryReport& m = (*program)->memory();
  CHECK(device_allocations().bytes - at_start == m.total());
  CHECK(m.arena >= m.lower_bound);
  CHECK(m.activations > m.lower_bound - m.workspace);  // something is shared
  CHECK(m.state == sizeof(float) * (5 * 27 + 5 * 45 + 960));
  const uint64_t calls = device_allocations().calls;
  Random r(1);
  Tensor result;
  for (int i = 0; i < 3; ++i) {
    const Tensor picture = random_tensor(r, {2, 3, 8, 6});
    REQUIRE(((*program)->feed(x, picture).ok() && (*program)->run().ok() && (*program)->fetch(fetches[0], result).ok()));
  }
  CHECK(device_allocations().calls == calls);
  program->reset();
  store.reset();
  CHECK(device_allocations().bytes == at_start);
}

TEST_CASE("program: what is wrong is said by name") {
  ValueId x;
  std::vector<ValueId> fetches;
  Graph g = conv_graph(&x, &fetches);
  Twin twin(g, {fetches[0]});
  CHECK(twin.program->run().message().find("input 'x' has not been fed") != std::string::npos);
  CHECK(twin.program->feed(x, Tensor(DType::kFloat32, {3, 3, 8, 6})).message() == "input 'x' is float32[2,3,8,6], got float32[3,3,8,6]");
  Tensor t;
  CHECK(twin.program->fetch(fetches[1], t).code() == Code::kInvalid);
  StateStore store(cpu_device());
  CHECK(store.ensure("w", Tensor(DType::kFloat32, {2})).ok());
  CHECK(store.ensure("w", Tensor(DType::kFloat32, {3})).message() == "state 'w' is float32[2], got float32[3]");
  CHECK(store.get("v").status().code() == Code::kNotFound);
}

TEST_CASE("state store: two programs share a weight") {
  Graph g;
  ValueId x = add_input(g, "x", {2});
  ValueId w = g.add_tensor("w", Tensor::of<float>({2}, {3, 4}), Role::kParameter);
  Builder b(g);
  ValueId y = b.op("Mul", {x, w});
  Graph reader = g;
  ValueId next = b.op("Add", {w, x});
  g.updates = {{w, next}};
  auto store = std::make_shared<StateStore>(cpu_device());
  auto train = Program::compile(g, cpu_device(), store, {});
  auto read = Program::compile(reader, cpu_device(), store, {y});
  REQUIRE((train.ok() && read.ok()));
  const Tensor one = Tensor::of<float>({2}, {1, 10});
  Tensor result;
  REQUIRE(((*train)->feed(x, one).ok() && (*train)->run().ok()));
  REQUIRE(((*read)->feed(x, one).ok() && (*read)->run().ok() && (*read)->fetch(y, result).ok()));
  CHECK(result.at(0) == 4);
  CHECK(result.at(1) == 140);
  REQUIRE(store->set("w", Tensor::of<float>({2}, {0, 1})).ok());
  REQUIRE(((*read)->run().ok() && (*read)->fetch(y, result).ok()));
  CHECK(result.at(1) == 10);
}

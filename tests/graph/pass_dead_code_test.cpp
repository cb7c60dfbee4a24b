// dead_code and fuse_batch_norm_relu: what is removed and merged, and what must stay.
#include <doctest/doctest.h>

#include "graph/ops/op.h"
#include "graph/passes/dead_code.h"
#include "graph/passes/fuse_batch_norm_relu.h"
#include "tests/support/op_check.h"
#include "tests/support/reference/reference.h"

using namespace eng;
using namespace eng::test;

namespace {

ValueId add_input(Graph& g, Shape shape) {
  ValueId v = g.add_value("x", DType::kFloat32, std::move(shape));
  g.value(v).role = Role::kInput;
  g.inputs.push_back(v);
  return v;
}

// BatchNormTraining on [2,3,4], its five outputs.
std::vector<ValueId> batch_norm(Graph& g, Builder& b, ValueId x) {
  auto tensor = [&](const char* name, std::vector<float> values, Role role) { return g.add_tensor(name, Tensor::of<float>({3}, values), role); };
  return b.ops(kEngineDomain, "BatchNormTraining",
               {x, tensor("scale", {1, 2, -1}, Role::kParameter), tensor("bias", {0.1F, -0.2F, 0.3F}, Role::kParameter), tensor("mean", {0, 0, 0}, Role::kState),
                tensor("var", {1, 1, 1}, Role::kState)},
               {true, true, true, true, true}, attrs({{"epsilon", 1e-3F}}));
}

}  // namespace

TEST_CASE("dead code: what outputs, updates and extra roots need stays, the rest goes") {
  Graph g;
  Builder b(g);
  ValueId x = add_input(g, {4});
  ValueId state = g.add_tensor("s", Tensor(DType::kFloat32, {4}), Role::kState);
  ValueId y = b.op("Relu", {x});
  ValueId next = b.op("Add", {state, x});
  ValueId extra = b.op("Tanh", {y});
  b.op("Exp", {b.op("Neg", {y})});  // two nodes that nobody wants
  g.outputs = {y};
  g.updates = {{state, next}};
  auto removed = dead_code(g, {extra});
  REQUIRE(removed.ok());
  CHECK(*removed == 2);
  CHECK(g.live_nodes().size() == 3);
  CHECK(*dead_code(g) == 1);  // without the extra root
  CHECK(verify(g).ok());
}

TEST_CASE("fuse batch norm and relu: one node with the same values") {
  Graph g;
  Builder b(g);
  ValueId x = add_input(g, {2, 3, 4});
  ValueId y = b.op("Relu", {batch_norm(g, b, x)[0]});
  ValueId z = b.op("Neg", {y});
  g.outputs = {y, z};
  REQUIRE(b.status().ok());
  RefTensor content(DType::kFloat32, {2, 3, 4});
  Random r(3);
  for (double& v : content.v) v = r.uniform(-1, 1);
  auto before = interpret(g, {{x, content}});
  CHECK(fuse_batch_norm_relu(g) == 1);
  CHECK(verify(g).ok());
  CHECK(g.live_nodes().size() == 2);
  auto after = interpret(g, {{x, content}});
  REQUIRE((before.ok() && after.ok()));
  CHECK((*before)[y].v == (*after)[y].v);
  CHECK((*before)[z].v == (*after)[z].v);
  CHECK(fuse_batch_norm_relu(g) == 0);
}

TEST_CASE("fuse batch norm and relu: not where the plain output is read or wanted too") {
  for (bool output : {true, false}) {
    Graph g;
    Builder b(g);
    ValueId normal = batch_norm(g, b, add_input(g, {2, 3, 4}))[0];
    ValueId y = b.op("Relu", {normal});
    if (output) g.outputs = {y, normal};
    else g.outputs = {y, b.op("Neg", {normal})};
    CHECK(fuse_batch_norm_relu(g) == 0);
  }
}

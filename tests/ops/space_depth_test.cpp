// DepthToSpace and SpaceToDepth: both orders of channels against the reference, and there and back.
#include <doctest/doctest.h>

#include "tests/support/op_check.h"

using namespace eng;
using namespace eng::test;

TEST_CASE("space_depth: both directions and orders") {
  uint64_t seed = 0;
  for (int64_t b : {1, 2, 3})
    for (int64_t channels : {1, 2, 5})
      for (const char* mode : {"DCR", "CRD"}) {
        const Attributes a = attrs({{"blocksize", b}, {"mode", std::string(mode)}});
        check_op({.op = "DepthToSpace", .inputs = {real({2, channels * b * b, 2, 3})}, .attributes = a, .seed = ++seed});
        check_op({.op = "SpaceToDepth", .inputs = {real({2, channels, 2 * b, 3 * b})}, .attributes = a, .seed = ++seed});
      }
}

TEST_CASE("space_depth: DCR puts channel k of a block at row k / b, column k % b") {
  OpCase c{.op = "DepthToSpace", .inputs = {given({1, 4, 1, 2}, {0, 1, 10, 11, 20, 21, 30, 31})}, .attributes = attrs({{"blocksize", int64_t{2}}})};
  auto y = run_on_cpu(c)[0];
  const double wanted[] = {0, 10, 1, 11, 20, 30, 21, 31};
  for (int64_t i = 0; i < 8; ++i) CHECK(y.at(i) == wanted[i]);
}

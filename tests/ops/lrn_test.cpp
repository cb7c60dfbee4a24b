// LRN: odd and even windows, wider than the channels, in all layouts.
#include <doctest/doctest.h>

#include "tests/support/op_check.h"

using namespace eng;
using namespace eng::test;

TEST_CASE("lrn: windows over channels agree with the reference and finite differences") {
  uint64_t seed = 0;
  for (const Shape& x : {Shape{2, 5, 3, 3}, Shape{1, 7, 5, 4}, Shape{2, 3, 2}, Shape{3, 4}, Shape{1, 6, 2, 2, 2}})
    for (int64_t size : {1, 2, 3, 4, 9})
      for (float beta : {0.75f, 0.5f}) {
        OpCase c{.op = "LRN", .inputs = {real(x, -3, 3)}, .seed = ++seed};
        c.attributes = attrs({{"size", size}, {"alpha", 0.3f}, {"beta", beta}, {"bias", 1.5f}});
        check_op(c);
      }
}

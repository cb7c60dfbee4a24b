// Cast: towards zero into integers, != 0 into bool, rounded into narrower floating types (float64 stays as it is).
#include <cmath>

#include "tests/support/reference/reference.h"

namespace eng::test {
namespace {

void cast(RefCall& c) {
  const DType to = c.out().dtype;
  for (int64_t i = 0; i < c.out().count(); ++i) {
    const double v = c.in(0)[i];
    if (to == DType::kBool) c.out()[i] = v != 0;
    else if (is_integer(to)) c.out()[i] = std::trunc(v);
    else if (to == DType::kFloat64) c.out()[i] = v;
    else {
      Tensor one(to, {});
      one.set(0, v);
      c.out()[i] = one.at(0);
    }
  }
}

}  // namespace

std::span<const RefDef> cast_reference() {
  static const RefDef defs[] = {{"", "Cast", cast}, {"", "CastLike", cast}};
  return defs;
}

}  // namespace eng::test

// Shape, Size, ConstantOfShape.
#include "tests/support/reference/reference.h"

namespace eng::test {
namespace {

void shape(RefCall& c) {
  const int64_t rank = static_cast<int64_t>(c.in(0).shape.size());
  int64_t start = c.attr().get_int("start", 0), end = c.attr().get_int("end", rank), to = 0;
  if (start < 0) start += rank;
  if (end < 0) end += rank;
  for (int64_t i = 0; i < rank; ++i)
    if (i >= start && i < end) c.out()[to++] = static_cast<double>(c.in(0).shape[static_cast<size_t>(i)]);
}

void size(RefCall& c) { c.out()[0] = static_cast<double>(c.in(0).count()); }

void fill(RefCall& c) {
  const Tensor* value = c.attr().find<Tensor>("value");
  for (double& d : c.out().v) d = value ? value->at(0) : 0;
}

}  // namespace

std::span<const RefDef> shape_reference() {
  static const RefDef defs[] = {{"", "Shape", shape}, {"", "Size", size}, {"", "ConstantOfShape", fill}};
  return defs;
}

}  // namespace eng::test

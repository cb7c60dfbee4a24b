// See elementwise.h.
#include "backends/cpu/elementwise.h"

#include <numeric>

namespace eng::cpu {
namespace {

// Stride of operand t along axis `axis` of the full shape of rank `rank`: 0 where it is broadcast.
int64_t stride_of(const TensorView& t, int64_t rank, int64_t axis) {
  const int64_t own = axis - (rank - t.rank());
  if (own < 0 || t.dims[static_cast<size_t>(own)] == 1) return 0;
  return t.strides[static_cast<size_t>(own)];
}

Loop loop_over(const std::vector<const TensorView*>& operands, std::vector<int64_t> axes) {
  const TensorView& out = *operands[0];
  Loop l;
  l.operands = static_cast<int>(operands.size());
  l.rank = 0;
  l.total = 1;
  for (int64_t a : axes) l.total *= out.dim(a);
  std::erase_if(axes, [&](int64_t a) { return out.dim(a) == 1; });
  std::stable_sort(axes.begin(), axes.end(), [&](int64_t a, int64_t b) { return out.strides[static_cast<size_t>(a)] > out.strides[static_cast<size_t>(b)]; });
  for (int64_t a : axes) {
    bool merge = l.rank > 0;
    for (size_t i = 0; merge && i < operands.size(); ++i)
      merge = l.stride[i][static_cast<size_t>(l.rank - 1)] == stride_of(*operands[i], out.rank(), a) * out.dim(a);
    if (!merge) ++l.rank;
    const size_t at = static_cast<size_t>(l.rank - 1);
    l.extent[at] = merge ? l.extent[at] * out.dim(a) : out.dim(a);
    for (size_t i = 0; i < operands.size(); ++i) l.stride[i][at] = stride_of(*operands[i], out.rank(), a);
  }
  if (l.rank == 0) {
    l.rank = 1;
    l.extent[0] = 1;
    for (size_t i = 0; i < operands.size(); ++i) l.stride[i][0] = 1;
  }
  return l;
}

}  // namespace

Loop make_loop(const std::vector<const TensorView*>& operands) {
  std::vector<int64_t> axes(static_cast<size_t>(operands[0]->rank()));
  std::iota(axes.begin(), axes.end(), 0);
  return loop_over(operands, axes);
}

Loop make_loop_without_axis(const std::vector<const TensorView*>& operands, int64_t axis, std::vector<int64_t>* axis_strides) {
  std::vector<int64_t> axes;
  for (int64_t a = 0; a < operands[0]->rank(); ++a)
    if (a != axis) axes.push_back(a);
  axis_strides->clear();
  for (const TensorView* t : operands) axis_strides->push_back(t->strides[static_cast<size_t>(axis)]);
  return loop_over(operands, axes);
}

}  // namespace eng::cpu

// The list of reference files: one line each. See reference.h.
#include "tests/support/reference/reference.h"

#define ENG_REFERENCE_FILES(X) \
  X(identity) \
  X(reorder) \
  X(gemm) \
  X(matmul) \
  X(reshape) \
  X(conv) \
  X(batch_norm) \
  X(pool) \
  X(lrn) \
  X(space_depth) \
  X(binary) \
  X(logic) \
  X(unary) \
  X(softmax) \
  X(reduce) \
  X(loss) \
  X(metric) \
  X(optimizer_update) \
  X(cast) \
  X(dropout) \
  X(conv_transpose) \
  X(layer_norm) \
  X(transpose) \
  X(concat) \
  X(slice) \
  X(gather) \
  X(scatter) \
  X(shape) \
  X(expand) \
  X(resize) \
  X(lstm) \
  X(gru) \
  X(rnn) \
  X(pad) \
  X(select) \
  X(generate) \
  X(einsum)

namespace eng::test {

#define ENG_DECLARE(stem) std::span<const RefDef> stem##_reference();
ENG_REFERENCE_FILES(ENG_DECLARE)
#undef ENG_DECLARE

const RefDef* find_reference(const std::string& domain, const std::string& op) {
  static const std::map<std::pair<std::string, std::string>, const RefDef*> by_name = [] {
    std::map<std::pair<std::string, std::string>, const RefDef*> m;
#define ENG_ADD(stem) \
  for (const RefDef& d : stem##_reference()) m[{d.domain, d.op}] = &d;
    ENG_REFERENCE_FILES(ENG_ADD)
#undef ENG_ADD
    return m;
  }();
  auto it = by_name.find({domain, op});
  return it == by_name.end() ? nullptr : it->second;
}

}  // namespace eng::test

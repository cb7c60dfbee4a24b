// See recurrent.h.
#include "graph/ops/recurrent.h"

#include <algorithm>
#include <cctype>

namespace eng {
namespace {

bool known_activation(std::string name) {
  for (char& ch : name) ch = static_cast<char>(std::tolower(static_cast<unsigned char>(ch)));
  for (const char* known : {"relu", "tanh", "sigmoid", "affine", "leakyrelu", "thresholdedrelu", "scaledtanh", "hardsigmoid", "elu", "softsign", "softplus"})
    if (name == known) return true;
  return false;
}

Status check_attributes(const InferContext& c, const RecurrentKind& kind, int64_t directions) {
  const Attributes& a = c.attributes();
  const std::string direction = a.get_string("direction", "forward");
  if (direction != "forward" && direction != "reverse" && direction != "bidirectional")
    return c.error("direction '" + direction + "' is none of forward, reverse, bidirectional");
  if (directions != (direction == "bidirectional" ? 2 : 1)) return c.error(cat("W has ", directions, " directions, but direction is ", direction));
  const int64_t layout = a.get_int("layout", 0);
  if (layout != 0 && layout != 1) return c.error(cat("layout ", layout, " is neither 0 nor 1"));
  if (const auto* names = a.find<std::vector<std::string>>("activations")) {
    if (static_cast<int64_t>(names->size()) != directions * kind.activations)
      return c.error(cat("has ", names->size(), " activations, wanted ", directions * kind.activations));
    for (const std::string& name : *names)
      if (!known_activation(name)) return c.error("activation '" + name + "' is not known");
  }
  if (a.has("clip") && !(a.get_float("clip", 0) > 0)) return c.error(cat("clip ", a.get_float("clip", 0), " must be above 0"));
  return {};
}

}  // namespace

Shape RecurrentSizes::sequence() const { return batch_first ? Shape{batch, steps, directions, hidden} : Shape{steps, directions, batch, hidden}; }
Shape RecurrentSizes::state() const { return batch_first ? Shape{batch, directions, hidden} : Shape{directions, batch, hidden}; }

Result<RecurrentSizes> check_recurrent(const InferContext& c, const RecurrentKind& kind, const RecurrentOperands& at) {
  if (c.rank(at.x) != 3 || c.rank(at.w) != 3 || c.rank(at.r) != 3)
    return c.error(cat("X, W and R must have three axes, got ", c.shape(at.x), ", ", c.shape(at.w), ", ", c.shape(at.r)));
  RecurrentSizes s;
  s.batch_first = c.attributes().get_int("layout", 0) == 1;
  s.steps = c.shape(at.x)[s.batch_first ? 1 : 0];
  s.batch = c.shape(at.x)[s.batch_first ? 0 : 1];
  s.input = c.shape(at.x)[2];
  s.directions = c.shape(at.w)[0];
  s.hidden = c.shape(at.r)[2];
  ENG_TRY(check_attributes(c, kind, s.directions));
  const int64_t stated = c.attributes().get_int("hidden_size", s.hidden);
  if (stated != s.hidden) return c.error(cat("hidden_size is ", stated, ", but R has shape ", c.shape(at.r)));
  auto expect = [&](int i, const char* name, const Shape& wanted) -> Status {
    if (i < 0 || !c.has_input(i) || c.shape(i) == wanted) return {};
    return c.error(cat("input ", name, " has shape ", c.shape(i), ", wanted ", wanted));
  };
  const int64_t rows = kind.gates * s.hidden;
  ENG_TRY(expect(at.w, "W", {s.directions, rows, s.input}));
  ENG_TRY(expect(at.r, "R", {s.directions, rows, s.hidden}));
  ENG_TRY(expect(at.b, "B", {s.directions, 2 * rows}));
  ENG_TRY(expect(at.lens, "sequence_lens", {s.batch}));
  ENG_TRY(expect(at.h0, "initial_h", s.state()));
  ENG_TRY(expect(at.c0, "initial_c", s.state()));
  ENG_TRY(expect(at.p, "P", {s.directions, 3 * s.hidden}));
  return s;
}

}  // namespace eng

// Einsum (opset 12): letters name axes, a letter that is not in the output is summed, a repeated letter in one term takes the
// diagonal, an ellipsis stands for axes that are broadcast. y[out] = sum over the other letters of the product of all operands.
// ai.engine::EinsumGrad(dy, operands...; equation, operand): the gradient of one operand, the same sum with the parts exchanged; the
// operand's own values are only read for its shape.
#include <algorithm>
#include <cctype>
#include <map>

#include "graph/ops/op.h"

namespace eng {
namespace {

struct Equation {
  std::vector<std::string> terms;
  std::string output;
  bool has_output = false;
};

Result<Equation> parse(const std::string& text) {
  std::string s;
  for (char ch : text)
    if (!std::isspace(static_cast<unsigned char>(ch))) s += ch;
  Equation e;
  const size_t arrow = s.find("->");
  e.has_output = arrow != std::string::npos;
  if (e.has_output) e.output = s.substr(arrow + 2);
  s = s.substr(0, arrow);
  for (size_t start = 0;;) {
    const size_t comma = s.find(',', start);
    e.terms.push_back(s.substr(start, comma == std::string::npos ? comma : comma - start));
    if (comma == std::string::npos) break;
    start = comma + 1;
  }
  for (const std::string& term : e.terms)
    for (size_t i = 0; i < term.size(); ++i) {
      if (term.compare(i, 3, "...") == 0 && term.find("...", i + 1) == std::string::npos) i += 2;
      else if (!std::isalpha(static_cast<unsigned char>(term[i]))) return invalid("equation '", text, "' cannot be read at '", term.substr(i), "'");
    }
  return e;
}

// Extent of each letter; the broadcast shape of the ellipsis.
struct Extents {
  std::map<char, int64_t> letter;
  Shape ellipsis;
};

Status bind_term(const std::string& term, const Shape& shape, Extents& out) {
  const size_t dots = term.find("...");
  const size_t letters = term.size() - (dots == std::string::npos ? 0 : 3);
  if (dots == std::string::npos ? letters != shape.size() : letters > shape.size()) return invalid("term '", term, "' does not fit an operand of shape ", shape);
  size_t axis = 0;
  for (size_t i = 0; i < term.size(); ++i) {
    if (i == dots) {
      const size_t count = shape.size() - letters;
      ENG_ASSIGN(out.ellipsis, broadcast(out.ellipsis, Shape(shape.begin() + static_cast<int64_t>(axis), shape.begin() + static_cast<int64_t>(axis + count))));
      axis += count;
      i += 2;
      continue;
    }
    const auto [at, fresh] = out.letter.emplace(term[i], shape[axis]);
    if (!fresh && at->second != shape[axis]) {
      if (at->second != 1 && shape[axis] != 1) return invalid("letter '", std::string(1, term[i]), "' has extents ", at->second, " and ", shape[axis]);
      at->second = std::max(at->second, shape[axis]);
    }
    ++axis;
  }
  return {};
}

// The output term where the equation leaves it out: the ellipsis, then letters used once in alphabetical order.
std::string implied_output(const Equation& e) {
  std::map<char, int> uses;
  bool dots = false;
  for (const std::string& term : e.terms)
    for (char ch : term) {
      if (ch == '.') dots = true;
      else ++uses[ch];
    }
  std::string out = dots ? "..." : "";
  for (auto [ch, count] : uses)
    if (count == 1) out += ch;
  return out;
}

Result<Shape> output_shape(const InferContext& c, int first) {
  ENG_ASSIGN(Equation e, parse(c.attributes().get_string("equation", "")));
  const size_t operands = static_cast<size_t>(c.input_count() - first);
  if (e.terms.size() != operands) return invalid("the equation has ", e.terms.size(), " terms, but there are ", operands, " operands");
  Extents x;
  for (size_t i = 0; i < operands; ++i) ENG_TRY(bind_term(e.terms[i], c.shape(first + static_cast<int>(i)), x));
  const std::string out = e.has_output ? e.output : implied_output(e);
  Shape shape;
  for (size_t i = 0; i < out.size(); ++i) {
    if (out.compare(i, 3, "...") == 0) {
      shape.insert(shape.end(), x.ellipsis.begin(), x.ellipsis.end());
      i += 2;
    } else {
      auto at = x.letter.find(out[i]);
      if (at == x.letter.end() || out.find(out[i], i + 1) != std::string::npos) return invalid("the output term '", out, "' has '", std::string(1, out[i]), "' twice or not in the operands");
      shape.push_back(at->second);
    }
  }
  return shape;
}

Status infer(InferContext& c) {
  auto shape = output_shape(c, 0);
  return shape.ok() ? c.set_output(0, c.dtype(0), *shape) : c.error(shape.status().message());
}

Status infer_grad(InferContext& c) {
  auto shape = output_shape(c, 1);
  if (!shape.ok()) return c.error(shape.status().message());
  if (*shape != c.shape(0)) return c.error(cat("dy has shape ", c.shape(0), ", wanted ", *shape));
  const int64_t operand = c.attributes().get_int("operand", 0);
  if (operand < 0 || operand + 1 >= c.input_count()) return c.error(cat("operand ", operand, " is not there"));
  return c.set_output(0, c.dtype(0), Shape(c.shape(static_cast<int>(operand) + 1)));
}

Status gradient(GradContext& c) {
  for (int i = 0; i < c.input_count(); ++i) {
    if (!c.needs(i)) continue;
    std::vector<ValueId> inputs = {c.dy()};
    for (int k = 0; k < c.input_count(); ++k) inputs.push_back(c.input(k));
    Attributes a;
    a.set("equation", c.attributes().get_string("equation", ""));
    a.set("operand", static_cast<int64_t>(i));
    c.set(i, c.b.engine_op("EinsumGrad", inputs, a));
  }
  return {};
}

Cost cost(const Graph& g, const Node& n) {
  double flops = 2;
  const std::string text = n.attributes.get_string("equation", "");
  auto e = parse(text);
  if (!e.ok()) return {};
  const size_t first = n.op_type == "EinsumGrad" ? 1 : 0;
  Extents x;
  for (size_t i = 0; i < e->terms.size() && i + first < n.inputs.size(); ++i)
    if (!bind_term(e->terms[i], g.value(n.inputs[i + first]).shape, x).ok()) return {};
  for (auto [letter, extent] : x.letter) flops *= static_cast<double>(extent);
  for (int64_t d : x.ellipsis) flops *= static_cast<double>(d);
  return {.flops = flops};
}

}  // namespace

std::span<const OpDef> einsum_ops() {
  static const OpDef ops[] = {
      {.name = "Einsum", .since = 12, .inputs = {{"Inputs"}}, .variadic = true, .infer = infer, .gradient = gradient, .cost = cost},
      {.domain = kEngineDomain, .name = "EinsumGrad", .inputs = {{"dy"}, {"Inputs"}}, .variadic = true, .infer = infer_grad,
       .no_gradient = "second derivatives of Einsum are not there yet", .cost = cost},
  };
  return ops;
}

}  // namespace eng

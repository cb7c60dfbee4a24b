// See node_signature.h.
#include "engine/exec/node_signature.h"

#include "engine/io/checksum.h"

namespace eng {
namespace {

constexpr size_t kShownBytes = 64;

void add(std::ostringstream& out, const Tensor& t) {
  out << static_cast<int>(t.dtype());
  append_text(out, t.shape());
  if (t.byte_count() <= kShownBytes && t.element_count() <= 16) {
    out << '{';
    for (int64_t i = 0; i < t.element_count(); ++i) out << (i ? "," : "") << t.at(i);
    out << '}';
  } else {
    out << '#' << hex8(crc32c(t.bytes(), t.byte_count()));
  }
}

void add(std::ostringstream& out, const Attribute& value) {
  if (auto* i = std::get_if<int64_t>(&value)) out << *i;
  else if (auto* f = std::get_if<float>(&value)) out << *f;
  else if (auto* s = std::get_if<std::string>(&value)) out << *s;
  else if (auto* is = std::get_if<std::vector<int64_t>>(&value)) append_text(out, *is);
  else if (auto* fs = std::get_if<std::vector<float>>(&value)) for (float x : *fs) out << x << ',';
  else if (auto* ss = std::get_if<std::vector<std::string>>(&value)) for (const std::string& x : *ss) out << x << ',';
  else if (auto* t = std::get_if<Tensor>(&value)) add(out, *t);
}

}  // namespace

std::string node_signature(const Graph& graph, const Node& node) {
  std::ostringstream out;
  const auto version = graph.opsets.find(node.domain);
  out << node.domain << '.' << node.op_type << '@' << (version == graph.opsets.end() ? 1 : version->second);
  for (const auto& [name, value] : node.attributes) {
    out << ' ' << name << '=';
    add(out, value);
  }
  const char* arrow = " : ";
  for (const auto* list : {&node.inputs, &node.outputs}) {
    out << arrow;
    arrow = " -> ";
    for (ValueId v : *list) {
      if (v == kNoValue) { out << "- "; continue; }
      const Value& value = graph.value(v);
      if (const Tensor* known = graph.constant(v)) {
        out << '=';
        add(out, *known);
      } else {
        out << static_cast<int>(value.dtype);
        append_text(out, value.shape);
      }
      out << (value.layout == Layout::kChannelsLast ? "l " : " ");
    }
  }
  return out.str();
}

}  // namespace eng

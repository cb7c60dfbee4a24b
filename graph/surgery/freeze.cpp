// See freeze.h.
#include "graph/surgery/freeze.h"

#include "graph/base/glob.h"

namespace eng {

Result<std::vector<std::string>> freeze(Graph& g, const std::vector<std::string>& globs) {
  const auto uses = g.uses();
  std::vector<char> hit(globs.size(), 0);
  std::vector<std::string> frozen, all;
  for (ValueId v = 0; v < g.value_count(); ++v) {
    if (g.value(v).role != Role::kParameter) continue;
    all.push_back(g.value(v).name);
    bool match = false;
    for (size_t i = 0; i < globs.size(); ++i) {
      bool here = glob_match(globs[i], g.value(v).name);
      for (NodeId n : uses[static_cast<size_t>(v)]) here |= !g.node(n).name.empty() && glob_match(globs[i], g.node(n).name);
      hit[i] |= here;
      match |= here;
    }
    if (!match) continue;
    g.value(v).frozen = true;
    frozen.push_back(g.value(v).name);
  }
  for (size_t i = 0; i < globs.size(); ++i) {
    if (hit[i]) continue;
    std::string some;
    for (size_t k = 0; k < all.size() && k < 6; ++k) some += (k ? ", " : "") + all[k];
    return not_found("--freeze '", globs[i], "' matches no parameter and no node; parameters are: ", some, all.size() > 6 ? ", ..." : "");
  }
  return frozen;
}

void unfreeze_all(Graph& g) {
  for (ValueId v = 0; v < g.value_count(); ++v) g.value(v).frozen = false;
}

}  // namespace eng

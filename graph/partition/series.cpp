// See series.h.
#include "graph/partition/series.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

namespace eng {
namespace {

// Which groups touch which, as pairs of places in the forward order (lower first).
std::vector<std::set<int>> links_of(const Problem& p, const std::vector<int>& place) {
  std::vector<std::set<int>> later(p.groups.size());
  for (const Flow& f : p.flows) {
    if (f.is_weight) continue;
    const int maker = place[static_cast<size_t>(f.group)];
    for (Task reader : f.readers) {
      const int other = place[static_cast<size_t>(reader.group)];
      if (other != maker) later[static_cast<size_t>(std::min(maker, other))].insert(std::max(maker, other));
    }
  }
  return later;
}

std::vector<std::vector<int>> earlier_of(const std::vector<std::set<int>>& later) {
  std::vector<std::vector<int>> earlier(later.size());
  for (size_t i = 0; i < later.size(); ++i)
    for (int j : later[i]) earlier[static_cast<size_t>(j)].push_back(static_cast<int>(i));
  return earlier;
}

std::vector<int> find_boundaries(const std::vector<std::set<int>>& later) {
  const int n = static_cast<int>(later.size());
  const auto earlier = earlier_of(later);
  std::vector<int> open(static_cast<size_t>(n) + 1, 0);  // +1 where a jump begins to cover places, -1 where it ends
  auto jump = [&](int from, int to) {
    if (to - from < 2) return;
    ++open[static_cast<size_t>(from + 1)];
    --open[static_cast<size_t>(to)];
  };
  for (int i = 0; i < n; ++i) {
    for (int j : later[static_cast<size_t>(i)]) jump(i, j);
    if (later[static_cast<size_t>(i)].empty()) jump(i, n);     // a way out of its own
    if (earlier[static_cast<size_t>(i)].empty()) jump(-1, i);  // a way in of its own
  }
  std::vector<int> boundaries;
  for (int i = 0, covering = 0; i < n; ++i) {
    covering += open[static_cast<size_t>(i)];
    if (covering == 0) boundaries.push_back(i);
  }
  return boundaries;
}

// Chains: a group follows another where each is the other's only neighbour on that side. Branches: what hangs together
// between the boundaries of a block.
void add_units(const Pieces& pieces, const std::vector<std::set<int>>& later, std::vector<std::vector<int>>& units) {
  const auto earlier = earlier_of(later);
  std::set<std::vector<int>> seen;
  auto add = [&](std::vector<int> places) {
    std::sort(places.begin(), places.end());
    if (places.size() < 2 || !seen.insert(places).second) return;
    for (int& place : places) place = pieces.order[static_cast<size_t>(place)];
    units.push_back(std::move(places));
  };
  const int n = static_cast<int>(later.size());
  auto next_in_chain = [&](int i) {
    if (later[static_cast<size_t>(i)].size() != 1) return -1;
    const int next = *later[static_cast<size_t>(i)].begin();
    return earlier[static_cast<size_t>(next)].size() == 1 ? next : -1;
  };
  std::vector<char> follows(static_cast<size_t>(n), 0);
  for (int i = 0; i < n; ++i)
    if (const int next = next_in_chain(i); next >= 0) follows[static_cast<size_t>(next)] = 1;
  for (int i = 0; i < n; ++i) {
    if (follows[static_cast<size_t>(i)]) continue;
    std::vector<int> chain;
    for (int at = i; at >= 0; at = next_in_chain(at)) chain.push_back(at);
    if (static_cast<int>(chain.size()) < n) add(chain);
  }
  std::vector<int> place(static_cast<size_t>(n));
  for (int i = 0; i < n; ++i) place[static_cast<size_t>(pieces.order[static_cast<size_t>(i)])] = i;
  for (const Block& block : pieces.blocks) {
    std::vector<int> whole;
    std::map<int, int> root;  // place -> representative
    for (int g : block.inside) root[place[static_cast<size_t>(g)]] = place[static_cast<size_t>(g)], whole.push_back(place[static_cast<size_t>(g)]);
    auto find = [&](int i) {
      while (root[i] != i) i = root[i];
      return i;
    };
    for (const auto& [i, unused] : root)
      for (int j : later[static_cast<size_t>(i)])
        if (root.count(j)) root[find(j)] = find(i);
    std::map<int, std::vector<int>> branches;
    for (const auto& [i, unused] : root) branches[find(i)].push_back(i);
    for (auto& [unused, branch] : branches) add(branch);
    add(whole);
    if (block.exit >= 0) whole.push_back(place[static_cast<size_t>(block.exit)]), add(whole);
  }
}

}  // namespace

Pieces find_pieces(const Problem& p) {
  Pieces pieces;
  std::vector<int> place(p.groups.size());
  for (Task t : p.order) {
    if (t.kind != TaskKind::kForward) continue;
    place[static_cast<size_t>(t.group)] = static_cast<int>(pieces.order.size());
    pieces.order.push_back(t.group);
  }
  const auto later = links_of(p, place);
  pieces.block_of.assign(p.groups.size(), 0);
  Block block;
  int at = 0;
  auto close = [&](int end) {
    for (; at < end; ++at) block.inside.push_back(pieces.order[static_cast<size_t>(at)]);
    for (int g : block.inside) pieces.block_of[static_cast<size_t>(g)] = static_cast<int>(pieces.blocks.size());
  };
  for (int boundary : find_boundaries(later)) {
    close(boundary);
    block.exit = pieces.order[static_cast<size_t>(boundary)];
    pieces.block_of[static_cast<size_t>(block.exit)] = static_cast<int>(pieces.blocks.size());
    pieces.blocks.push_back(block);
    block = {block.exit, -1, {}};
    at = boundary + 1;
  }
  if (at < p.group_count()) {
    close(p.group_count());
    pieces.blocks.push_back(block);
  }
  add_units(pieces, later, pieces.units);
  return pieces;
}

int width_of(const Problem& p, const Block& block) {
  std::map<int, int> level;
  for (int g : block.inside) level[g] = 0;
  for (int g : block.inside)  // forward order
    for (const Flow& f : p.flows)
      if (f.group == g && f.made_by == TaskKind::kForward && !f.is_weight)
        for (Task reader : f.readers)
          if (auto it = level.find(reader.group); it != level.end() && reader.group != g) it->second = std::max(it->second, level[g] + 1);
  std::map<int, int> count;
  int widest = 0;
  for (const auto& [g, l] : level) widest = std::max(widest, ++count[l]);
  return widest;
}

Problem problem_of(const Problem& p, const Block& block, std::vector<int>* groups) {
  groups->clear();
  if (block.entry >= 0) groups->push_back(block.entry);
  groups->insert(groups->end(), block.inside.begin(), block.inside.end());
  if (block.exit >= 0) groups->push_back(block.exit);
  std::vector<int> local(p.groups.size(), -1);
  Problem sub;
  sub.machine = p.machine;
  for (DeviceSpec& d : sub.machine.devices) d.memory_limit.reset();
  for (size_t i = 0; i < groups->size(); ++i) {
    const Group& from = p.groups[static_cast<size_t>((*groups)[i])];
    local[static_cast<size_t>((*groups)[i])] = static_cast<int>(i);
    Group g;
    const bool entry = i == 0 && block.entry >= 0;
    for (int k = 0; k < kTaskKinds; ++k) {
      g.seconds[k] = from.seconds[k];
      for (double& s : g.seconds[k])
        if (s != kCannotRun && (entry || k == static_cast<int>(TaskKind::kUpdate))) s = 0;
    }
    g.forced = from.forced;
    sub.groups.push_back(std::move(g));
  }
  for (const Flow& f : p.flows) {
    const int maker = local[static_cast<size_t>(f.group)];
    if (f.is_weight || maker < 0) continue;
    Flow part;
    part.group = maker;
    part.made_by = f.made_by;
    part.bytes = f.bytes;
    for (Task reader : f.readers)
      if (const int r = local[static_cast<size_t>(reader.group)]; r >= 0) part.readers.push_back({r, reader.kind});
    if (!part.readers.empty()) sub.flows.push_back(std::move(part));
  }
  for (Task t : p.order)
    if (const int g = local[static_cast<size_t>(t.group)]; g >= 0) sub.order.push_back({g, t.kind});
  return sub;
}

}  // namespace eng

// See placement.h.
#include "graph/partition/placement.h"

#include <algorithm>
#include <map>
#include <utility>

#include "graph/base/glob.h"

namespace eng {
namespace {

struct Line {
  int number = 0;
  std::string pattern;
  int device = -1;
};

std::string trim(const std::string& s) {
  const size_t first = s.find_first_not_of(" \t\r"), last = s.find_last_not_of(" \t\r");
  return first == std::string::npos ? "" : s.substr(first, last - first + 1);
}

class Reader {
 public:
  Reader(const Graph& graph, const std::vector<std::string>& devices, const std::vector<std::string>& absorbed)
      : graph_(graph), devices_(devices), absorbed_(absorbed) {}

  void parse(const std::string& text) {
    std::istringstream in(text);
    std::string raw;
    for (int number = 1; std::getline(in, raw); ++number) {
      const std::string line = trim(raw.substr(0, raw.find('#')));
      if (!line.empty()) parse_line(number, line);
    }
  }

  NodePlaces apply() {
    NodePlaces places;
    const size_t count = static_cast<size_t>(graph_.node_count());
    places.device.assign(count, -1);
    places.line.assign(count, 0);
    std::map<std::pair<int, int>, std::pair<std::string, int>> conflicts;  // lines -> first node, number of nodes
    for (const Line& line : lines_) {
      bool matched = false;
      for (NodeId n : graph_.live_nodes()) {
        const Node& node = graph_.node(n);
        if ((node.phase != Phase::kForward && node.phase != Phase::kLoss) || !glob_match(line.pattern, placement_name(graph_, node))) continue;
        matched = true;
        int& device = places.device[static_cast<size_t>(n)];
        int& from = places.line[static_cast<size_t>(n)];
        if (from == 0) from = line.number, device = line.device;
        else if (device != line.device) {
          auto& [name, nodes] = conflicts[{from, line.number}];
          if (nodes++ == 0) name = placement_name(graph_, node);
        }
      }
      for (const std::string& name : absorbed_) matched |= glob_match(line.pattern, name);
      if (!matched) problem(line.number, cat("no node's name matches '", line.pattern, "'"));
    }
    for (const auto& [pair, what] : conflicts)
      problem(pair.second, cat("gives '", what.first, "'", what.second > 1 ? cat(" and ", what.second - 1, " more") : "",
                               " another device than line ", pair.first));
    return places;
  }

  Status status(const std::string& where) {
    if (problems_.empty()) return {};
    std::stable_sort(problems_.begin(), problems_.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    std::string all;
    for (const auto& [line, text] : problems_) all += cat("\n  line ", line, ": ", text);
    return invalid(where, ": ", problems_.size(), problems_.size() == 1 ? " line of the placement is wrong:" : " lines of the placement are wrong:", all);
  }

 private:
  void problem(int line, const std::string& text) { problems_.emplace_back(line, text); }

  void parse_line(int number, const std::string& text) {
    const size_t equals = text.rfind('=');
    Line line;
    line.number = number;
    if (equals != std::string::npos) line.pattern = trim(text.substr(0, equals));
    const std::string device = equals == std::string::npos ? "" : trim(text.substr(equals + 1));
    if (line.pattern.empty() || device.empty()) return problem(number, cat("'", text, "': wanted 'node-name pattern = device'"));
    const auto found = std::find(devices_.begin(), devices_.end(), device);
    if (found == devices_.end()) {
      std::string known;
      for (const std::string& d : devices_) known += (known.empty() ? "" : ", ") + d;
      return problem(number, cat("there is no device '", device, "'; the devices are ", known));
    }
    line.device = static_cast<int>(found - devices_.begin());
    lines_.push_back(line);
  }

  const Graph& graph_;
  const std::vector<std::string>& devices_;
  const std::vector<std::string>& absorbed_;
  std::vector<Line> lines_;
  std::vector<std::pair<int, std::string>> problems_;
};

}  // namespace

std::string placement_name(const Graph& graph, const Node& node) {
  if (!node.name.empty()) return node.name;
  for (ValueId v : node.outputs)
    if (v != kNoValue) return graph.value(v).name;
  return "";
}

Result<NodePlaces> read_placement(const std::string& text, const std::string& where, const Graph& graph, const std::vector<std::string>& devices,
                                  const std::vector<std::string>& absorbed) {
  Reader reader(graph, devices, absorbed);
  reader.parse(text);
  NodePlaces places = reader.apply();
  ENG_TRY(reader.status(where));
  for (NodeId n : graph.live_nodes()) {
    const Node& node = graph.node(n);
    if (node.phase != Phase::kBackward || node.forward_node == kNoNode) continue;
    places.device[static_cast<size_t>(n)] = places.device[static_cast<size_t>(node.forward_node)];
    places.line[static_cast<size_t>(n)] = places.line[static_cast<size_t>(node.forward_node)];
  }
  return places;
}

}  // namespace eng

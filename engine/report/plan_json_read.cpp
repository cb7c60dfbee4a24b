// Reads plan files (see plan_json.h). nlohmann-json splits the text; a reader of its events keeps the line of every member, which its
// own tree would not. The line comes from counting line ends as the parser takes the bytes: it has taken no more than a brace or a
// quote when an object or list begins or a member's name is over, so these lines are exact; other entries of a list have the list's line.
#include <fmt/format.h>

#include <cmath>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "engine/io/file.h"
#include "engine/report/plan_json.h"
#include "engine/report/plan_words.h"

namespace eng {
namespace {

constexpr int64_t kMaxBytes = int64_t{1} << 30;
constexpr size_t kMaxDepth = 16, kMaxMembers = 64, kMaxItems = 8 << 20, kMaxFindings = 20;

struct Item {
  enum Kind { kNull, kBool, kWhole, kNumber, kText, kList, kObject } kind = kNull;
  int line = 0;
  bool truth = false, negative = false;
  uint64_t whole = 0;  // its absolute value
  double number = 0;
  std::string text;
  std::vector<Item> items;
  std::vector<std::pair<std::string, Item>> members;
};

const char* words_of(const Item& i) {
  switch (i.kind) {
    case Item::kNull: return "null";
    case Item::kBool: return "true or false";
    case Item::kWhole:
    case Item::kNumber: return "a number";
    case Item::kText: return "text";
    case Item::kList: return "a list";
    case Item::kObject: return "an object";
  }
  return "";
}

struct CountingIterator {
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;
  const char* at = nullptr;
  int* line = nullptr;
  reference operator*() const { return *at; }
  CountingIterator& operator++() {
    *line += *at++ == '\n';
    return *this;
  }
  CountingIterator operator++(int) {
    CountingIterator old = *this;
    ++*this;
    return old;
  }
  bool operator==(const CountingIterator& o) const { return at == o.at; }
  bool operator!=(const CountingIterator& o) const { return at != o.at; }
};

// nlohmann's SAX interface.
class Tree {
 public:
  explicit Tree(const int& line) : line_(line) {}
  Item root;
  std::string problem;

  bool null() { return put({}); }
  bool boolean(bool v) { return put({.kind = Item::kBool, .truth = v}); }
  bool number_integer(int64_t v) { return put({.kind = Item::kWhole, .negative = v < 0, .whole = v < 0 ? 0 - static_cast<uint64_t>(v) : static_cast<uint64_t>(v), .number = static_cast<double>(v)}); }
  bool number_unsigned(uint64_t v) { return put({.kind = Item::kWhole, .whole = v, .number = static_cast<double>(v)}); }
  bool number_float(double v, const std::string&) { return put({.kind = Item::kNumber, .number = v}); }
  bool string(std::string& v) { return put({.kind = Item::kText, .text = std::move(v)}); }
  bool binary(std::vector<uint8_t>&) { return false; }
  bool start_object(size_t) { return open(Item::kObject); }
  bool start_array(size_t) { return open(Item::kList); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool key(std::string& name) {
    for (const auto& member : open_.back()->members) {
      if (member.first == name) return refuse(fmt::format("line {}: '{}' is given twice (first in line {})", line_, name, member.second.line));
    }
    if (open_.back()->members.size() == kMaxMembers) return refuse(fmt::format("line {}: more than {} members in one object", line_, kMaxMembers));
    open_.back()->members.emplace_back(std::move(name), Item{.line = line_});
    return true;
  }
  bool parse_error(size_t, const std::string&, const nlohmann::json::exception& e) {
    const std::string text = e.what();  // "[json.exception.parse_error.101] parse error at line 1, column 2: ..."
    const size_t begin = text.find(" at ");
    problem = "malformed JSON" + (begin == std::string::npos ? ": " + text : text.substr(begin));
    return false;
  }

 private:
  Item* put(Item item, int) {
    Item* place = &root;
    if (!open_.empty() && open_.back()->kind == Item::kObject) {
      place = &open_.back()->members.back().second;
      item.line = place->line;
    } else if (!open_.empty()) {
      item.line = item.kind == Item::kObject || item.kind == Item::kList ? line_ : open_.back()->line;
      open_.back()->items.emplace_back();
      place = &open_.back()->items.back();
    } else {
      item.line = line_;
    }
    *place = std::move(item);
    return place;
  }
  bool put(Item item) { return ++items_ <= kMaxItems ? put(std::move(item), 0) != nullptr : refuse(fmt::format("line {}: more than {} values", line_, kMaxItems)); }
  bool refuse(std::string why) {
    problem = std::move(why);
    return false;
  }
  bool open(Item::Kind kind) {
    if (open_.size() == kMaxDepth) return refuse(fmt::format("line {}: nested more than {} deep", line_, kMaxDepth));
    if (++items_ > kMaxItems) return refuse(fmt::format("line {}: more than {} values", line_, kMaxItems));
    open_.push_back(put({.kind = kind}, 0));  // stays where it is: only the innermost list grows
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }
  const int& line_;
  size_t items_ = 0;
  std::vector<Item*> open_;
};

// Takes values out of the tree and notes what is wrong.
class Findings {
 public:
  void add(int line, const std::string& text) {
    ++count_;
    if (findings_.size() < kMaxFindings) findings_.emplace_back(line, text);
  }
  bool any() const { return count_ > 0; }
  size_t count() const { return count_; }
  Status status(const std::string& where) {
    if (!any()) return {};
    std::stable_sort(findings_.begin(), findings_.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    std::string all;
    for (const auto& [line, text] : findings_) all += fmt::format("\n  line {}: {}", line, text);
    if (count_ > kMaxFindings) all += fmt::format("\n  and {} more", count_ - kMaxFindings);
    return invalid(where, ": ", count_, count_ == 1 ? " entry of the plan is wrong:" : " entries of the plan are wrong:", all);
  }

 private:
  size_t count_ = 0;
  std::vector<std::pair<int, std::string>> findings_;
};

// One object of the file: members are asked for by name; what nobody asked for is unknown.
class Members {
 public:
  Members(Findings& findings, const Item& object, std::string what) : f_(findings), object_(object), what_(std::move(what)) {
    if (object.kind != Item::kObject) f_.add(object.line, what_ + " is " + words_of(object) + "; an object is wanted");
  }
  ~Members() {
    if (object_.kind != Item::kObject) return;
    std::string known;
    for (const std::string& name : asked_) known += (known.empty() ? "" : ", ") + name;
    for (const auto& [name, item] : object_.members)
      if (!asked_.count(name)) f_.add(item.line, fmt::format("{} has an unknown member '{}'; known are {}", what_, name, known));
  }
  Members(const Members&) = delete;
  Members& operator=(const Members&) = delete;

  int line() const { return object_.line; }
  const Item* find(const char* name) {
    asked_.insert(name);
    for (const auto& [n, item] : object_.members)
      if (n == name) return &item;
    return nullptr;
  }
  const Item* need(const char* name, Item::Kind kind, const char* wanted) {
    const Item* item = find(name);
    if (!item) {
      if (object_.kind == Item::kObject) f_.add(object_.line, fmt::format("{} lacks '{}': {} is wanted", what_, name, wanted));
      return nullptr;
    }
    const bool fits = item->kind == kind || (kind == Item::kNumber && item->kind == Item::kWhole);
    if (!fits) wrong(*item, name, wanted);
    return fits ? item : nullptr;
  }
  void wrong(const Item& item, const char* name, const std::string& wanted) {
    std::string got = item.kind == Item::kText ? "'" + item.text + "'" : item.kind == Item::kWhole || item.kind == Item::kNumber ? fmt::format("{}", item.number) : words_of(item);
    f_.add(item.line, fmt::format("{} of {} is {}; {} is wanted", name, what_, got, wanted));
  }
  std::string text(const char* name) {
    const Item* item = need(name, Item::kText, "text");
    return item ? item->text : "";
  }
  double seconds(const char* name, double low = 0) {
    const Item* item = need(name, Item::kNumber, "a number");
    if (item && !(item->number >= low && std::isfinite(item->number))) wrong(*item, name, low < 0 ? "a number" : "a number of at least 0");
    return item ? item->number : 0;
  }
  bool truth(const char* name) {
    const Item* item = need(name, Item::kBool, "true or false");
    return item && item->truth;
  }
  uint64_t bytes(const char* name) {
    const Item* item = need(name, Item::kWhole, "a whole number of bytes");
    if (item && item->negative) wrong(*item, name, "a whole number of bytes");
    return item ? item->whole : 0;
  }
  std::optional<uint64_t> maybe_bytes(const char* name) { return find(name) ? std::optional<uint64_t>(bytes(name)) : std::nullopt; }
  int64_t count(const char* name, int64_t low, int64_t high) {
    const std::string wanted = fmt::format("a whole number from {} to {}", low, high);
    const Item* item = need(name, Item::kWhole, wanted.c_str());
    if (!item) return low;
    if (item->number >= static_cast<double>(low) && item->number <= static_cast<double>(high)) return static_cast<int64_t>(item->number);
    wrong(*item, name, wanted);
    return low;
  }
  const std::vector<Item>& list(const char* name) {
    static const std::vector<Item> none;
    const Item* item = need(name, Item::kList, "a list");
    return item ? item->items : none;
  }
  Span span(const char* name) {
    const Item* item = need(name, Item::kList, "[start, end] in seconds");
    if (!item) return {};
    const auto& i = item->items;
    const auto number = [](const Item& x) { return (x.kind == Item::kNumber || x.kind == Item::kWhole) && std::isfinite(x.number) && x.number >= 0; };
    if (i.size() == 2 && number(i[0]) && number(i[1]) && i[0].number <= i[1].number) return {i[0].number, i[1].number};
    f_.add(item->line, fmt::format("{} of {}: [start, end] in seconds is wanted, 0 <= start <= end", name, what_));
    return {};
  }
  std::optional<Span> maybe_span(const char* name) { return find(name) ? std::optional<Span>(span(name)) : std::nullopt; }
  // A name out of a list; -1 where it is none.
  int one_of(const char* name, const std::vector<std::string>& known, const char* kind) {
    const Item* item = need(name, Item::kText, kind);
    if (!item) return -1;
    for (size_t i = 0; i < known.size(); ++i)
      if (known[i] == item->text) return static_cast<int>(i);
    std::string list;
    for (const std::string& k : known) list += (list.empty() ? "" : ", ") + k;
    f_.add(item->line, fmt::format("{} of {}: there is no {} '{}' here; known are {}", name, what_, kind, item->text, list));
    return -1;
  }

 private:
  Findings& f_;
  const Item& object_;
  const std::string what_;
  std::set<std::string> asked_;
};

class PlanReader {
 public:
  explicit PlanReader(std::vector<int>* node_lines) : node_lines_(node_lines) {}
  Findings findings;

  Plan read(const Item& root) {
    Members m(findings, root, "the plan");
    plan_.graph_name = m.text("graph");
    plan_.batch = m.count("batch", 0, int64_t{1} << 40);
    plan_.replicas = static_cast<int>(m.count("replicas", 1, 1 << 20));
    plan_.shards_per_replica = static_cast<int>(m.count("shards_per_replica", 1, 1 << 20));
    plan_.method = m.text("method");
    plan_.seconds = m.seconds("seconds");
    if (m.find("measured_seconds")) plan_.measured_seconds = m.seconds("measured_seconds");
    plan_.all_reduce_seconds = m.seconds("all_reduce_seconds");
    m.find("plan_version");
    if (const Item* bound = m.need("bound", Item::kObject, "an object")) {
      Members b(findings, *bound, "the bound");
      plan_.bound = {b.seconds("critical_path"), b.seconds("work"), b.seconds("crossings")};
    }
    if (const Item* machine = m.need("machine", Item::kObject, "an object with devices and links")) read_machine(*machine);
    read_replicas(m);
    const auto& candidates = m.list("candidates");
    for (size_t i = 0; i < candidates.size(); ++i) read_candidate(candidates[i], i);
    const auto &memory = m.list("memory"), &transfers = m.list("transfers"), &nodes = m.list("nodes");
    if (devices_.empty()) return std::move(plan_);  // said already; every node's device would be said again
    read_memory(memory, root);
    for (size_t i = 0; i < transfers.size(); ++i) read_transfer(transfers[i], i);
    for (size_t i = 0; i < nodes.size(); ++i) read_node(nodes[i], i);
    return std::move(plan_);
  }

 private:
  std::vector<std::string> machine_names() const {
    std::vector<std::string> names;
    for (const DeviceSpec& d : plan_.machine.devices) names.push_back(d.name);
    return names;
  }

  void read_machine(const Item& machine) {
    Members m(findings, machine, "the machine");
    const auto& devices = m.list("devices");
    std::set<std::string> seen;
    for (size_t i = 0; i < devices.size(); ++i) {
      Members d(findings, devices[i], fmt::format("device {}", i));
      DeviceSpec spec;
      spec.name = d.text("name");
      spec.memory_limit = d.maybe_bytes("memory_limit");
      spec.flops_per_second = d.seconds("flops_per_second");
      spec.bytes_per_second = d.seconds("bytes_per_second");
      if (spec.name.empty() || !seen.insert(spec.name).second) findings.add(d.line(), "device '" + spec.name + "': a name of its own is wanted");
      plan_.machine.devices.push_back(std::move(spec));
    }
    if (devices.empty()) findings.add(machine.line, "the machine has no devices");
    plan_.machine.connect_all({});
    const auto names = machine_names();
    std::set<std::pair<int, int>> linked;
    const auto& links = m.list("links");
    for (size_t i = 0; i < links.size(); ++i) {
      Members l(findings, links[i], fmt::format("link {}", i));
      const int from = l.one_of("from", names, "device"), to = l.one_of("to", names, "device");
      const LinkSpec spec{l.seconds("latency"), l.seconds("bytes_per_second")};
      if (from < 0 || to < 0) continue;
      if (from == to || !linked.insert({from, to}).second) findings.add(l.line(), fmt::format("link {}: from one device to another, each pair once, is wanted", i));
      else plan_.machine.link(from, to) = spec;
    }
    for (int from = 0; from < plan_.machine.device_count() && links.size() < names.size() * names.size(); ++from)
      for (int to = 0; to < plan_.machine.device_count(); ++to)
        if (from != to && !linked.count({from, to})) findings.add(machine.line, fmt::format("the machine lacks the link from '{}' to '{}'", names[static_cast<size_t>(from)], names[static_cast<size_t>(to)]));
  }

  void read_replicas(Members& m) {
    const auto names = machine_names();
    const Item* list = m.need("replica_devices", Item::kList, "a list of lists of device names");
    if (!list) return;
    std::set<int> taken;
    const size_t before = findings.count();
    for (const Item& replica : list->items) {
      plan_.replica_devices.emplace_back();
      for (const Item& name : replica.items) {
        const auto found = name.kind == Item::kText ? std::find(names.begin(), names.end(), name.text) : names.end();
        if (found == names.end()) findings.add(replica.line, fmt::format("replica_devices: there is no device '{}' in the machine", name.text));
        else if (!taken.insert(static_cast<int>(found - names.begin())).second) findings.add(replica.line, fmt::format("replica_devices: '{}' stands twice", name.text));
        else plan_.replica_devices.back().push_back(static_cast<int>(found - names.begin()));
      }
      if (replica.items.empty() || replica.items.size() != list->items[0].items.size())
        findings.add(replica.line, "replica_devices: every replica must have as many devices as the first one, and at least one");
    }
    if (list->items.size() != static_cast<size_t>(plan_.replicas))
      findings.add(list->line, fmt::format("replica_devices has {} lists where there are {} replicas", list->items.size(), plan_.replicas));
    if (findings.count() == before)
      for (int d : plan_.replica_devices[0]) devices_.push_back(names[static_cast<size_t>(d)]);
  }

  void read_candidate(const Item& item, size_t i) {
    Members m(findings, item, fmt::format("candidate {}", i));
    plan_.candidates.push_back({m.text("name"), m.truth("fits"), m.truth("chosen"), m.seconds("seconds"), m.seconds("margin", -1), m.text("note")});
  }

  void read_memory(const std::vector<Item>& list, const Item& root) {
    if (list.size() != devices_.size()) findings.add(root.line, fmt::format("memory has {} entries where a replica has {} devices", list.size(), devices_.size()));
    for (size_t i = 0; i < list.size(); ++i) {
      Members m(findings, list[i], fmt::format("memory entry {}", i));
      const int device = m.one_of("device", devices_, "device");
      if (device >= 0 && static_cast<size_t>(device) != i) findings.add(m.line(), "memory entries stand in the order of the first replica's devices");
      PlanMemory memory{m.bytes("resident"), m.bytes("peak"), m.maybe_bytes("limit"), {}, m.maybe_bytes("measured_peak")};
      for (const Item& point : m.list("curve")) {
        const auto& p = point.items;
        const double before = memory.curve.empty() ? 0 : memory.curve.back().time;
        if (p.size() == 2 && (p[0].kind == Item::kNumber || p[0].kind == Item::kWhole) && p[1].kind == Item::kWhole && !p[1].negative && std::isfinite(p[0].number) && p[0].number >= before)
          memory.curve.push_back({p[0].number, p[1].whole});
        else return findings.add(m.line(), fmt::format("curve of memory entry {}: [seconds, bytes] with times that do not decrease is wanted", i));
      }
      plan_.memory.push_back(std::move(memory));
    }
  }

  static const std::vector<std::string>& phases() {
    static const std::vector<std::string> names{"forward", "loss", "backward", "update"};
    return names;
  }

  void read_transfer(const Item& item, size_t i) {
    Members m(findings, item, fmt::format("transfer {}", i));
    PlanTransfer t;
    t.value = m.text("value");
    t.phase = static_cast<Phase>(std::max(0, m.one_of("phase", phases(), "phase")));
    t.bytes = m.bytes("bytes");
    t.from = m.one_of("from", devices_, "device");
    t.to = m.one_of("to", devices_, "device");
    if (t.from >= 0 && t.from == t.to) findings.add(m.line(), fmt::format("transfer {} goes from '{}' to itself", i, devices_[static_cast<size_t>(t.from)]));
    t.predicted = m.span("predicted");
    t.measured = m.maybe_span("measured");
    plan_.transfers.push_back(std::move(t));
  }

  void read_node(const Item& item, size_t i) {
    Members m(findings, item, fmt::format("node {}", i));
    PlanNode n;
    n.output = m.text("output");
    n.device = m.one_of("device", devices_, "device");
    n.phase = static_cast<Phase>(std::max(0, m.one_of("phase", phases(), "phase")));
    n.op_type = m.text("op");
    n.name = m.text("name");
    n.group = static_cast<int>(m.count("group", 0, 1 << 30));
    n.predicted = m.span("predicted");
    n.measured = m.maybe_span("measured");
    n.flops = m.seconds("flops");
    n.bytes = m.seconds("bytes");
    n.reason = m.text("reason");
    const auto [known, fresh] = outputs_.emplace(n.output, m.line());
    if (!fresh) findings.add(m.line(), fmt::format("node {}: output '{}' stands in line {} already", i, n.output, known->second));
    if (node_lines_) node_lines_->push_back(m.line());
    plan_.nodes.push_back(std::move(n));
  }

  Plan plan_;
  std::vector<std::string> devices_;  // of the first replica
  std::map<std::string, int> outputs_;
  std::vector<int>* node_lines_;
};

}  // namespace

Result<Plan> parse_plan(const std::string& text, const std::string& where, std::vector<int>* node_lines) {
  int line = 1;
  Tree tree(line);
  const CountingIterator begin{text.data(), &line}, end{text.data() + text.size(), &line};
  if (!nlohmann::json::sax_parse(begin, end, &tree)) return invalid(where, ": ", tree.problem);
  if (tree.root.kind != Item::kObject) return invalid(where, ": line ", tree.root.line, ": ", words_of(tree.root), "; an object with plan_version, graph, machine, nodes, ... is wanted");
  // The version first: another one may have any other members.
  const Item* version = nullptr;
  for (const auto& [name, item] : tree.root.members)
    if (name == "plan_version") version = &item;
  if (!version) return invalid(where, ": line ", tree.root.line, ": this is no plan: it lacks plan_version");
  if (version->kind != Item::kWhole || version->number != kPlanVersion)
    return invalid(where, ": line ", version->line, ": plan_version ", version->kind == Item::kWhole ? std::to_string(static_cast<int64_t>(version->number)) : words_of(*version),
                   " is not known; this program reads version ", kPlanVersion);
  if (node_lines) node_lines->clear();
  PlanReader reader(node_lines);
  Plan plan = reader.read(tree.root);
  ENG_TRY(reader.findings.status(where));
  return plan;
}

Result<Plan> read_plan(const std::string& path, std::vector<int>* node_lines) {
  ENG_ASSIGN(const std::string text, read_text_file(path, kMaxBytes));
  return parse_plan(text, printable(path), node_lines);
}

}  // namespace eng

// engine-graph: looks at and changes models. A command is a row of commands(): a name, a function, the options it uses.
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "engine/exec/evaluate.h"
#include "engine/io/file.h"
#include "engine/report/plan_diff.h"
#include "engine/report/plan_json.h"
#include "graph/passes/check_supported.h"
#include "graph/passes/infer_shapes.h"
#include "graph/surgery/freeze.h"
#include "graph/surgery/replace_head.h"
#include "engine/plugin/loader.h"
#include "graph/surgery/training_step.h"
#include "importers/onnx/export.h"
#include "tools/common/devices.h"
#include "tools/common/graph_compare.h"
#include "tools/common/graph_report.h"
#include "tools/common/model_source.h"
#include "tools/common/option_table.h"
#include "tools/common/optimizer_options.h"
#include "tools/common/plan_command.h"

namespace eng::tools {
namespace {

struct GraphOptions {
  std::string command, model, other, format = "text", out, target, size, loss = "auto", cut_at, backend_path;
  std::vector<std::string> shapes, freeze;
  std::vector<double> batches{1, 8, 32};
  int64_t batch = 1, classes = 0, seed = 0;
  PlanRequest plan;
  OptimizerSpec optimizer;
  double dropout = 0;
  bool all = false, freeze_bn = false;
};

std::vector<OptionRow> step_rows(GraphOptions& o) {
  std::vector<OptionRow> rows = momentum_rows(o.optimizer);
  for (const OptionRow& row : gradient_rows(o.optimizer)) rows.push_back(row);
  rows.push_back({.name = "--freeze-bn", .target = &o.freeze_bn, .help = "batch normalisation uses and keeps its stored statistics"});
  return rows;
}

OptionTable graph_table(GraphOptions& o) {
  OptionTable t;
  t.command = "engine-graph";
  t.usage = "engine-graph info|check|trainable|memory|plan|draw|gradient|replace-head|diff|devices MODEL.onnx [MODEL2.onnx] [options]";
  t.about =
      "info          inputs, outputs, parameters, operators, arithmetic, memory to train by batch size\n"
      "check         reads the model and names everything in it that is not supported; status 3 where there is something\n"
      "trainable     every node that stands in the way of training, why, and what would help; status 3 where there is one\n"
      "memory        memory of a training step by batch size\n"
      "plan          which device runs which part of a training step, why, and what it costs; which other ways there are; see docs/plans.md\n"
      "draw          the graph as DOT or SVG\n"
      "gradient      the whole training step (forward, loss, backward, updates) as an ONNX file, or as text\n"
      "replace-head  a new last layer with --classes outputs\n"
      "diff          what differs between two models, or between two plans\n"
      "devices       the devices there are\n"
      "Results on stdout, logs on stderr. Exit status: 0 done, 2 wrong usage, 3 bad model, 4 device failure.";
  t.groups = {{"Words",
               {{.name = "command", .target = &o.command, .value = "COMMAND", .help = "what to do"},
                {.name = "model", .target = &o.model, .value = "MODEL.onnx", .help = "the model"},
                {.name = "other", .target = &o.other, .value = "MODEL2.onnx", .help = "for diff: the model or plan to compare with"}}},
              {"Options",
               {{.name = "--format", .target = &o.format, .value = "FORM", .help = "of the result; an --out that ends in .json, .dot, .svg or .html chooses it", .choices = {"text", "json", "dot", "svg", "html"}},
                {.name = "--out", .target = &o.out, .value = "FILE", .help = "where the result goes", .default_text = "stdout"},
                {.name = "--target", .target = &o.target, .value = "NAME", .help = "the output that counts", .default_text = "the first that depends on weights"},
                {.name = "--size", .target = &o.size, .value = "HxW", .help = "picture size in pixels", .default_text = "from the model, or 224x224"},
                {.name = "--shape", .target = &o.shapes, .value = "INPUT:DxD..", .help = "shape of an input without the batch, such as x:140x256", .default_text = "from the model"},
                {.name = "--batches", .target = &o.batches, .value = "N,...", .help = "batch sizes of info and memory", .low = 1, .high = 1 << 20},
                {.name = "--batch", .target = &o.batch, .value = "N", .help = "batch size of draw, gradient and plan", .default_text = "1; of plan 32", .low = 1, .high = 1 << 20},
                optimizer_row(o.optimizer, "of memory, gradient and plan (sgd: with momentum in info and memory)"),
                {.name = "--loss", .target = &o.loss, .value = "NAME", .help = "of gradient and plan",
                 .choices = {"auto", "sparse_categorical_crossentropy", "categorical_crossentropy", "binary_crossentropy", "mean_squared_error"}},
                {.name = "--freeze", .target = &o.freeze, .value = "GLOB,...", .help = "weights that are not trained", .default_text = "none"},
                {.name = "--classes", .target = &o.classes, .value = "N", .help = "outputs of the new head; of gradient and plan: as engine-train --replace-head N", .default_text = "the head is kept; replace-head needs it", .low = 1},
                {.name = "--cut-at", .target = &o.cut_at, .value = "NODE", .help = "of a new head: cut behind this node", .default_text = "found by itself"},
                {.name = "--dropout", .target = &o.dropout, .value = "RATE", .help = "of a new head: in front of the new layer", .low = 0, .high = 0.99},
                {.name = "--seed", .target = &o.seed, .value = "N", .help = "of new weights", .low = 0},
                {.name = "--backend-path", .target = &o.backend_path, .value = "PATHS", .help = "devices, plan: backend plugins, files or folders separated by ':'",
                 .default_text = "ENGINE_BACKEND_PATH, else beside the program"},
                {.name = "--all", .target = &o.all, .help = "trainable: list every weight"}}},
              {"Training step of gradient and plan, as engine-train makes it with the same options", step_rows(o)},
              {"Planning",
               {{.name = "--devices", .target = &o.plan.devices, .value = "NAME,...", .help = "devices of the step, such as cpu:0,cpu:1"},
                {.name = "--parallel", .target = &o.plan.parallel, .value = "HOW",
                 .help = "data (each device computes shards of the batch), branch (each computes branches of the model), auto (what is predicted to be fastest), none (one device)",
                 .choices = {"auto", "data", "branch", "none"}},
                {.name = "--shards", .target = &o.plan.shards, .value = "N", .help = "parts of the batch, computed by themselves", .default_text = "as many as replicas", .low = 0, .high = 1 << 16},
                {.name = "--placement", .target = &o.plan.placement, .value = "FILE", .help = "lines 'node name pattern = device'", .default_text = "found by the planner"},
                {.name = "--plan", .target = &o.plan.plan, .value = "FILE.json", .help = "predict this plan instead of looking for one", .default_text = "none"},
                {.name = "--memory", .target = &o.plan.memory, .value = "BYTES", .help = "most memory of each device, such as 8G", .default_text = "no limit"},
                {.name = "--link", .target = &o.plan.link, .value = "US,GB_PER_S", .help = "every link between devices: latency in microseconds, gigabytes a second", .default_text = "measured"},
                {.name = "--what-if", .target = &o.plan.what_if, .value = "NAME=VALUE,...",
                 .help = "another machine or batch: devices=4,memory=8G,batch=64,link=US:GB_PER_S,speed=TIMES; memory and speed: one for all, or one a device with ':' between",
                 .default_text = "none"},
                {.name = "--costs", .target = &o.plan.costs, .value = "HOW", .help = "measured (on the devices, once, then kept in the cache folder), estimated (from FLOPs and bytes, for devices that are not here too)",
                 .choices = {"measured", "estimated"}},
                {.name = "--threads", .target = &o.plan.threads, .value = "N", .help = "threads of each CPU device", .default_text = "the processor's, divided by the devices", .low = 0, .high = 4096}}}};
  return t;
}

struct Context {
  const GraphOptions& o;
  const std::vector<std::string>& given;  // options of the command line
  const Console& console;
  std::shared_ptr<Device> device;
  Graph model;
  ShapeBinding binding;  // batch entries are -1
};

Status deliver(const GraphOptions& o, const std::string& text) {
  if (!o.out.empty()) return write_file_atomic(o.out, text);
  print_text(text);
  return {};
}

Status only_formats(const GraphOptions& o, std::initializer_list<const char*> known) {
  std::string list;
  for (const char* k : known) {
    if (o.format == k) return {};
    list += (list.empty() ? "" : ", ") + std::string(k);
  }
  return usage_error(o.command, " --format ", o.format, ": known are ", list);
}

Result<std::vector<int64_t>> parse_dims(const std::string& text, const std::string& option) {
  std::vector<int64_t> dims;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('x', begin), text.size());
    const auto n = parse_number(text.substr(begin, end - begin));
    if (!n.ok() || *n < 1 || *n > 1e9) return usage_error(option, " '", text, "': sizes with x between them are wanted, such as 140x256");
    dims.push_back(static_cast<int64_t>(*n));
    begin = end + 1;
  }
  return dims;
}

// --shape and --size win over the file; what both leave open is 3 channels and 224x224 for what looks like pictures.
Result<ShapeBinding> open_sizes(const Graph& model, const GraphOptions& o) {
  ShapeBinding b;
  std::vector<int64_t> size{224, 224};
  if (!o.size.empty()) {
    ENG_ASSIGN(size, parse_dims(o.size, "--size"));
    if (size.size() == 1) size.push_back(size[0]);
    if (size.size() != 2) return usage_error("--size ", o.size, ": HxW is wanted");
  }
  for (ValueId id : model.inputs) {
    const Value& v = model.value(id);
    Shape shape = v.declared_dims;
    if (!is_batched(model, id)) continue;  // its own size, see graph/passes/bind_shapes.h
    if (shape.size() == 4) {
      const bool last = shape[3] == 1 || shape[3] == 3, open_channels = shape[1] < 0 && !last;
      if (open_channels) shape[1] = 3;
      for (size_t k : last ? std::vector<size_t>{1, 2} : std::vector<size_t>{2, 3}) {
        if (shape[k] < 0 || !o.size.empty()) shape[k] = size[k - (last ? 1 : 2)];
      }
    }
    if (!shape.empty()) shape[0] = -1;
    b.shapes[v.name] = shape;
  }
  for (const std::string& text : o.shapes) {
    const size_t colon = text.rfind(':');
    const std::string name = text.substr(0, colon);
    if (colon == std::string::npos || !b.shapes.count(name)) return usage_error("--shape '", text, "': INPUT:DxD with the name of an input is wanted");
    ENG_ASSIGN(std::vector<int64_t> dims, parse_dims(text.substr(colon + 1), "--shape"));
    dims.insert(dims.begin(), -1);
    b.shapes[name] = dims;
  }
  return b;
}

ShapeBinding with_batch(ShapeBinding b, int64_t batch) {
  b.batch = batch;
  for (auto& [name, shape] : b.shapes) {
    if (!shape.empty() && shape[0] < 0) shape[0] = batch;
  }
  return b;
}

Status freeze_weights(Context& c) { return c.o.freeze.empty() ? Status() : freeze(c.model, c.o.freeze).status(); }

Result<InfoReport> report_of(Context& c) {
  ENG_TRY(only_formats(c.o, {"text", "json"}));
  ENG_TRY(freeze_weights(c));
  const std::vector<int64_t> batches(c.o.batches.begin(), c.o.batches.end());
  return info_of(c.model, c.o.model, c.binding, c.o.target, c.device, batches, c.o.optimizer.kind);
}

Status info(Context& c) {
  ENG_ASSIGN(const InfoReport r, report_of(c));
  return deliver(c.o, c.o.format == "json" ? as_json(r) : as_text(r));
}

Status memory(Context& c) {
  ENG_ASSIGN(const InfoReport r, report_of(c));
  if (r.memory.empty()) return invalid(c.o.model, ": ", r.flops_problem);
  if (c.o.format == "json") return deliver(c.o, as_json(r));
  std::string text;
  for (const MemoryRow& m : r.memory) {
    if (!m.problem.empty()) return invalid("batch ", m.batch, ": ", m.problem);
    text += cat("batch ", m.batch, ": ", bytes_text(m.total), "\n  within a step        ", bytes_text(m.arena), " (of it workspace ", bytes_text(m.workspace), "; without sharing ",
                bytes_text(m.activations), ")\n  weights, optimiser   ", bytes_text(m.state), "\n  inputs               ", bytes_text(m.inputs), "\n  constants            ",
                bytes_text(m.constants), "\n  fullest at           ", m.peak_node, "\n");
  }
  return deliver(c.o, text);
}

Status check(Context& c) {
  ENG_TRY(only_formats(c.o, {"text", "json"}));
  const std::vector<std::string> findings = unsupported_nodes(c.model);
  std::string text;
  if (c.o.format == "json") {
    nlohmann::ordered_json j{{"model", c.o.model}, {"supported", findings.empty()}, {"findings", findings}};
    text = j.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  } else {
    for (const std::string& f : findings) text += f + "\n";
    if (findings.empty()) text = cat(c.o.model, ": ", c.model.live_nodes().size(), " nodes, all supported\n");
  }
  ENG_TRY(deliver(c.o, text));
  return findings.empty() ? Status() : unsupported(c.o.model, ": ", findings.size(), findings.size() == 1 ? " node is" : " nodes are", " not supported");
}

Status trainable(Context& c) {
  ENG_TRY(only_formats(c.o, {"text", "json"}));
  ENG_TRY(freeze_weights(c));
  const TrainableReport r = trainable_of(c.model, c.binding, c.o.target, c.device);
  ENG_TRY(deliver(c.o, c.o.format == "json" ? as_json(r) : as_text(r, c.o.all)));
  return r.obstacles.empty() && r.problem.empty() ? Status() : unsupported(c.o.model, " cannot be trained as it is");
}

Status draw(Context& c) {
  if (c.o.format != "svg" && c.o.format != "dot" && c.o.format != "text") return only_formats(c.o, {"dot", "svg"});
  Graph shaped = c.model;  // with shapes where they can be found out
  if (bind_shapes(shaped, with_batch(c.binding, c.o.batch)).ok() && infer_shapes(shaped, evaluator_on(c.device)).ok()) c.model = std::move(shaped);
  return deliver(c.o, c.o.format == "svg" ? to_svg(c.model) : to_dot(c.model));
}

Result<HeadReport> put_head(Context& c) {
  const HeadOptions head{.classes = c.o.classes, .cut_at = c.o.cut_at, .dropout = c.o.dropout, .seed = static_cast<uint64_t>(c.o.seed), .target = c.o.target};
  return replace_head(c.model, head, with_batch(c.binding, 1), evaluator_on(c.device));
}

// The model of a training step: with a new head where --classes asks for one, and weights frozen.
Status prepare_step(Context& c) {
  const GraphOptions& o = c.o;
  if (o.classes == 0 && (!o.cut_at.empty() || o.dropout > 0)) return usage_error("--cut-at and --dropout belong to a new head: give --classes");
  ENG_TRY(check_optimizer(o.optimizer));
  if (o.classes > 0) {
    ENG_ASSIGN(const HeadReport r, put_head(c));
    c.console.note("head: put   " + r.put);
  }
  return freeze_weights(c);
}

Result<Step> step_of(const Context& c, int64_t batch) {
  StepOptions options;
  options.target = c.o.target;
  options.freeze_bn = c.o.freeze_bn;
  options.optimizer = c.o.optimizer;
  options.seed = static_cast<uint64_t>(c.o.seed);
  ENG_ASSIGN(options.loss, c.o.loss == "auto" ? Result<LossKind>(LossKind::kAuto) : parse_loss(c.o.loss));
  return build_training_step(c.model, with_batch(c.binding, batch), options, evaluator_on(c.device));
}

Status plan(Context& c) {
  ENG_TRY(only_formats(c.o, {"text", "json", "dot", "svg", "html"}));
  PlanRequest request = c.o.plan;
  request.devices_given = !first_of(c.given, {"--devices"}).empty();
  request.batch = first_of(c.given, {"--batch"}).empty() ? 0 : c.o.batch;
  if (request.plan.empty()) {
    ENG_ASSIGN(const std::vector<std::string> names, device_names(request.devices));
    ENG_TRY(load_backends_for(names, c.o.backend_path));
  } else {
    ENG_TRY(load_backends(c.o.backend_path));  // the plan names its devices
  }
  ENG_TRY(prepare_step(c));
  ENG_ASSIGN(const MadePlan made, make_plan_for(request, c.model, [&c](int64_t rows) { return step_of(c, rows); }, c.console));
  ENG_ASSIGN(const std::string text, in_form(made, c.o.format));
  return deliver(c.o, text);
}

Status gradient(Context& c) {
  ENG_TRY(prepare_step(c));
  ENG_ASSIGN(const Step step, step_of(c, c.o.batch));
  c.console.note(step.loss_note);
  c.console.note(cat(step.graph.live_nodes().size(), " nodes, ", step.parameters.size(), " weights are trained, ", step.graph.updates.size(), " updates"));
  const bool onnx = c.o.out.size() > 5 && c.o.out.substr(c.o.out.size() - 5) == ".onnx";
  if (onnx) return export_onnx(step.graph, c.o.out);
  ENG_TRY(only_formats(c.o, {"text", "dot", "svg"}));
  return deliver(c.o, c.o.format == "svg" ? to_svg(step.graph) : c.o.format == "dot" ? to_dot(step.graph) : print(step.graph));
}

Status new_head(Context& c) {
  if (c.o.classes < 1 || c.o.out.empty()) return usage_error("replace-head needs --classes N and --out FILE.onnx");
  ENG_ASSIGN(const HeadReport r, put_head(c));
  ENG_TRY(export_onnx(c.model, c.o.out));
  print_text(cat("found ", r.found, "\ncut   ", r.cut, "\nput   ", r.put, "\n"));
  return {};
}

Status deliver_lines(const GraphOptions& o, const std::vector<std::string>& lines) {
  if (o.format == "json") return deliver(o, nlohmann::json(lines).dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return deliver(o, lines.empty() ? "no difference\n" : text);
}

Status diff(Context& c) {
  ENG_ASSIGN(const Graph other, read_model(c.o.other, c.console));
  return deliver_lines(c.o, differences(c.model, other));
}

// Of two plans; true where that is what the command is about.
Result<bool> diff_plans(const GraphOptions& o) {
  ENG_TRY(only_formats(o, {"text", "json"}));
  if (o.other.empty()) return usage_error("diff needs two models, or two plans");
  ENG_ASSIGN(const bool first, looks_like_plan(o.model));
  ENG_ASSIGN(const bool second, looks_like_plan(o.other));
  if (first != second) return usage_error("diff compares two models or two plans: '", first ? o.model : o.other, "' is a plan, '", first ? o.other : o.model, "' is not");
  if (!first) return false;
  ENG_ASSIGN(const Plan a, read_plan(o.model));
  ENG_ASSIGN(const Plan b, read_plan(o.other));
  ENG_TRY(deliver_lines(o, differences(a, b)));
  return true;
}

Status list_devices(const GraphOptions& o) {
  ENG_TRY(load_backends(o.backend_path));
  ENG_TRY(only_formats(o, {"text", "json"}));
  const auto text_of = [](const eb_string& s) { return s.data ? std::string(s.data, s.length) : std::string(); };
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  std::string text;
  for (const eb_backend_table* b : backends()) {
    eb_error error{sizeof(eb_error), 0, {0}};
    int32_t count = 0;
    ENG_TRY(to_status(b->core->device_count(&count, &error), error, text_of(b->name)));
    for (int32_t i = 0; i < count; ++i) {
      eb_device_info info{};
      info.struct_size = sizeof info;
      ENG_TRY(to_status(b->core->device_info(i, &info, &error), error, text_of(b->name)));
      const std::string state = text_of(info.unavailable);
      list.push_back({{"name", text_of(info.name)}, {"description", text_of(info.description)}, {"total_memory", info.total_memory},
                      {"free_memory", info.free_memory}, {"unavailable", state}});
      text += cat(text_of(info.name), "  ", text_of(info.description), info.total_memory == 0 ? "" : cat("  ", bytes_text(info.total_memory), ", ", bytes_text(info.free_memory), " free"),
                  state.empty() ? "" : "  not usable: " + state, "\n");
    }
  }
  return deliver(o, o.format == "json" ? list.dump(2) + "\n" : text);
}

struct Command {
  const char* name;
  Status (*run)(Context&);
  std::vector<std::string> options;  // that it uses, besides --out; others are refused
};
const std::vector<Command>& commands() {
  static const std::vector<Command> all{
      {"info", info, {"--format", "--target", "--size", "--shape", "--batches", "--optimizer", "--freeze"}},
      {"check", check, {"--format"}},
      {"trainable", trainable, {"--format", "--target", "--size", "--shape", "--freeze", "--all"}},
      {"memory", memory, {"--format", "--target", "--size", "--shape", "--batches", "--optimizer", "--freeze"}},
      {"plan", plan, {"--format", "--target", "--size", "--shape", "--batch", "--optimizer", "--loss", "--freeze", "--seed", "--classes", "--cut-at", "--dropout", "--momentum", "--nesterov",
                      "--weight-decay", "--clip-norm", "--clip-value", "--freeze-bn", "--backend-path", "--devices", "--parallel", "--shards",
                      "--placement", "--plan", "--memory", "--link", "--what-if", "--costs", "--threads"}},
      {"draw", draw, {"--format", "--size", "--shape", "--batch"}},
      {"gradient", gradient, {"--format", "--target", "--size", "--shape", "--batch", "--optimizer", "--loss", "--freeze", "--seed", "--classes", "--cut-at", "--dropout", "--momentum", "--nesterov",
                              "--weight-decay", "--clip-norm", "--clip-value", "--freeze-bn"}},
      {"replace-head", new_head, {"--target", "--size", "--shape", "--classes", "--cut-at", "--dropout", "--seed"}},
      {"diff", diff, {"--format"}},
      {"devices", nullptr, {"--format", "--backend-path"}}};
  return all;
}

// Refuses what the command would not look at, and an --out whose ending is that of another form than --format; no --format: the ending's.
Status check_options(GraphOptions& o, const Command& command, const std::vector<std::string>& given) {
  for (const std::string& name : given) {
    if (name.rfind("--", 0) != 0 || name == "--out") continue;
    if (std::find(command.options.begin(), command.options.end(), name) == command.options.end()) return usage_error(name, " means nothing to ", o.command);
  }
  for (const char* form : {"json", "dot", "svg", "html"}) {
    if (!o.out.ends_with(std::string(".") + form) || o.format == form) continue;
    if (!first_of(given, {"--format"}).empty()) return usage_error("--out ", o.out, " does not fit --format ", o.format);
    o.format = form;
  }
  return {};
}

Status run(GraphOptions& o, const std::vector<std::string>& given, const Console& console) {
  const Command* found = nullptr;
  std::vector<std::string> known;
  for (const Command& c : commands()) {
    known.emplace_back(c.name);
    if (o.command == c.name) found = &c;
  }
  if (!found) {
    std::string list;
    for (const std::string& k : known) list += (list.empty() ? "" : ", ") + k;
    return usage_error("unknown command '", o.command, "'; known are ", list, suggestion(o.command, known));
  }
  ENG_TRY(check_options(o, *found, given));
  if (o.command == "devices") return list_devices(o);
  if (o.model.empty()) return usage_error(o.command, " needs a model");
  ENG_TRY(keep_inputs(o.out, {o.model, o.other, o.plan.plan, o.plan.placement}));
  if (!o.other.empty() && o.command != "diff") return usage_error("unexpected argument '", o.other, "'");
  if (o.command == "diff") {
    ENG_ASSIGN(const bool done, diff_plans(o));
    if (done) return {};
  }
  Context c{o, given, console, nullptr, {}, {}};
  ENG_ASSIGN(c.device, Device::open("cpu:0"));
  ENG_ASSIGN(c.model, read_model(o.model, console));
  ENG_ASSIGN(c.binding, open_sizes(c.model, o));
  return found->run(c);
}

int main_of(const std::vector<std::string>& words) {
  ignore_file_size_signal();
  GraphOptions options;
  const OptionTable table = graph_table(options);
  const auto line = parse_options(table, words);
  const Console console(1);
  if (!line.ok()) return console.finish(line.status());
  if (line->version) return std::fputs(version_text(table).c_str(), stdout) < 0;
  if (line->help) {
    GraphOptions defaults;
    std::fputs(help_text(graph_table(defaults)).c_str(), stdout);
    return 0;
  }
  if (options.command.empty()) return console.finish(usage_error("usage: ", table.usage));
  return console.finish(run(options, line->given, console));
}

}  // namespace
}  // namespace eng::tools

int main(int argc, char** argv) { return eng::tools::main_of({argv + 1, argv + argc}); }

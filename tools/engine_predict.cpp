// engine-predict: runs a model over pictures or arrays. Classes and preprocessing come from the file's metadata, where engine-train put
// them; options on the command line win.
//   --out FILE.csv   name, predicted class, a probability (or value) a column;  without --out it goes to stdout
//   --out FILE.npz   the raw output under its name, and where there are labels y, or labels where the output itself is called y
//   --metrics ...    one JSON line on stdout (needs class folders or y)
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>

#include "engine/exec/evaluate.h"
#include "engine/exec/program.h"
#include "engine/io/file.h"
#include "engine/plugin/loader.h"
#include "graph/surgery/training_step.h"
#include "importers/image/decode.h"
#include "importers/npz/npz.h"
#include "tools/common/data_source.h"
#include "tools/common/model_source.h"
#include "tools/common/data_options.h"
#include "tools/common/scores.h"
#include "tools/common/host_fallback.h"

#include "engine/data/pipeline.h"

namespace eng::tools {
namespace {

struct PredictOptions {
  std::string model, data, out, target, devices = "cpu:0";
  std::vector<std::string> metrics;
  int64_t batch = 32, threads = 0, verbose = 1;
  DataOptions input;
};

OptionTable predict_table(PredictOptions& o) {
  OptionTable t;
  t.command = "engine-predict";
  t.usage = "engine-predict MODEL.onnx --data DIR|FILE.npz [--out FILE.csv|FILE.npz] [--metrics accuracy,log_loss,auc] [options]";
  t.about = "Runs an ONNX model over a folder of pictures or the arrays of a .npz file.\nExit status: 0 done, 2 wrong usage, 3 bad model or data, 4 device failure.";
  t.groups = {{"Prediction",
               {{.name = "model", .target = &o.model, .value = "MODEL.onnx", .help = "the network"},
                {.name = "--data", .target = &o.data, .value = "PATH", .help = "pictures (with or without class folders), or a .npz file with arrays named as the model's inputs"},
                {.name = "--out", .target = &o.out, .value = "FILE", .help = ".csv or .npz; metrics alone need none", .default_text = "CSV on stdout"},
                {.name = "--metrics", .target = &o.metrics, .value = "NAME,...", .help = "against the labels, as one JSON line", .default_text = "none",
                 .choices = {"accuracy", "log_loss", "auc"}},
                {.name = "--target", .target = &o.target, .value = "NAME", .help = "the output that is wanted", .default_text = "the first that depends on weights, else the first"},
                {.name = "--batch", .target = &o.batch, .value = "N", .help = "samples computed at once", .low = 1, .high = 1 << 20},
                {.name = "--devices", .target = &o.devices, .value = "NAME", .help = "where it is computed; one device"},
                {.name = "--threads", .target = &o.threads, .value = "N", .help = "threads of the computation", .default_text = "one a processor", .low = 0, .high = 4096},
                {.name = "--verbose", .target = &o.verbose, .value = "LEVEL", .help = "0 silent, 1 notes", .low = 0, .high = 1}}},
              {"Data", data_rows(o.input)}};
  return t;
}

struct Predictions {
  std::string name;                // of the output
  Tensor output;                   // [N, ...]
  std::vector<int64_t> labels;     // empty where there are none
  std::vector<std::string> samples, classes;
};

// Sub-folders that are all known classes make a labelled folder. `others`: sub-folders that are none.
bool labelled_folder(const std::string& path, const std::vector<std::string>& classes, std::vector<std::string>& others) {
  if (file_info(path).kind != FileKind::kFolder) return false;
  const auto names = list_folder(path);
  if (!names.ok()) return false;
  int64_t known = 0;
  for (const std::string& name : *names) {
    if (name[0] == '.' || file_info(join_path(path, name)).kind != FileKind::kFolder) continue;
    if (std::find(classes.begin(), classes.end(), name) != classes.end()) ++known;
    else others.push_back(printable(name));
  }
  return known > 0 && others.empty();
}

// The output that is wanted: --target; else the first that depends on weights, as in training; else the first of floats, else the first.
std::string target_of(const Graph& model, const std::string& given) {
  if (!given.empty()) return given;
  if (const auto trained = find_target(model, ""); trained.ok()) return model.value(*trained).name;
  for (ValueId v : model.outputs) {
    if (is_floating(model.value(v).dtype)) return model.value(v).name;
  }
  return model.outputs.empty() ? "" : model.value(model.outputs[0]).name;
}

// Outputs that are no numbers: an error where all are, else a warning.
Status check_numbers(const Predictions& p, const PredictOptions& o, const Console& console) {
  int64_t first = 0;
  const int64_t count = rows_without_numbers(p.output, first), rows = p.output.shape()[0];
  const std::string text = cat("output '", p.name, "' of ", o.model, " holds values that are no numbers (NaN) for ", count, " of ", rows, " samples, first ",
                               printable(p.samples[static_cast<size_t>(first)]));
  if (count == rows) return invalid(text, ": the model's weights or the data hold NaN, or the computation overflows");
  if (count > 0) console.warn(text + "; they get no prediction and count as wrong");
  return {};
}

Result<std::shared_ptr<Dataset>> make_dataset(DataSource source, const Graph& part, const PredictOptions& o, const std::vector<std::string>& given,
                                              bool labelled, std::vector<SampleSpec>& specs, const Console& console, Progress& progress) {
  Preprocessing p;
  if (source.folder) {
    if (part.inputs.size() != 1) return invalid("the model has ", part.inputs.size(), " inputs; picture folders feed one: give arrays with --data FILE.npz");
    const Value& input = part.value(part.inputs[0]);
    ENG_ASSIGN(const bool stored, Preprocessing::from_metadata(part.metadata, p));
    const auto is_given = [&](const char* name) { return std::find(given.begin(), given.end(), name) != given.end(); };
    DataOptions wanted = o.input;
    if (stored) {  // what was not given is taken from the file
      if (!is_given("--size")) wanted.size = cat(p.height, "x", p.width);
      if (!is_given("--color")) wanted.color = p.channels == 1 ? "gray" : "rgb";
      if (!is_given("--rescale")) wanted.rescale = p.rescale;
      if (!is_given("--mean")) wanted.mean = p.mean;
      if (!is_given("--std")) wanted.std = p.std;
      if (!is_given("--interpolation")) wanted.interpolation = name_of(p.interpolation);
      console.note("preprocessing from the model's metadata");
    }
    ENG_ASSIGN(p, preprocessing_for(wanted, input.name, input.declared_dims));
  }
  ENG_ASSIGN(specs, input_specs(part, source, p));
  if (!source.folder) {
    ArrayOptions options;
    options.class_mode = ClassMode::kNone;  // labels are read from the arrays as they are
    options.source = source.path;
    source.arrays.erase("y");
    return make_array_dataset(std::move(source.arrays), specs, options);
  }
  ImageFolderOptions options;
  options.preprocessing = p;
  options.class_mode = labelled ? ClassMode::kSparse : ClassMode::kNone;
  options.input_name = specs[0].name;
  options.workers = worker_count(o.input);
  options.cache_bytes = o.input.cache << 20;
  options.every_class_needed = false;
  options.progress = [&progress](int64_t done, int64_t total) { progress.stage("reading pictures", done, total); };
  const DecodeFn decode = [](const std::byte* bytes, size_t count, const DecodeOptions& d, Image& image) { return decode_image(bytes, count, d, image); };
  return make_image_folder(std::move(source.index), std::move(options), decode);
}

// Runs all batches and puts the outputs one after another. `host`: the CPU, for nodes that the device cannot run.
Result<Tensor> run_all(const Graph& model, const PredictOptions& o, const std::shared_ptr<Device>& device, const std::shared_ptr<Device>& host, const std::vector<SampleSpec>& specs,
                       DataPipeline& pipeline, Progress& progress) {
  struct Compiled {
    Step step;
    std::unique_ptr<Program> program;
  };
  auto store = std::make_shared<StateStore>(device);
  std::map<int64_t, Compiled> programs;
  Tensor all;
  int64_t row = 0, done = 0;
  Batch batch;
  pipeline.begin_epoch(0);
  while (true) {
    ENG_ASSIGN(const bool more, pipeline.next(batch));
    if (!more) break;
    progress.stage("predicting", ++done, pipeline.batches_per_epoch());
    Compiled& c = programs[batch.size];
    if (!c.program) {
      ShapeBinding binding;
      binding.batch = batch.size;
      for (const SampleSpec& spec : specs) {
        Shape& shape = binding.shapes[spec.name];
        shape.push_back(batch.size);
        shape.insert(shape.end(), spec.shape.begin(), spec.shape.end());
      }
      ENG_ASSIGN(c.step, build_prediction_step(model, binding, o.target, evaluator_on(host)));
      std::vector<std::shared_ptr<Device>> places{device};
      if (!device->same_device(*host) && place_on_host(c.step.graph, *device) > 0) places.push_back(host);
      ENG_ASSIGN(c.program, Program::compile(c.step.graph, places, store, {c.step.predictions}));
    }
    for (ValueId input : c.step.inputs) {
      for (size_t i = 0; i < specs.size(); ++i) {
        if (specs[i].name == c.step.graph.value(input).name) ENG_TRY(c.program->feed(input, batch.inputs[i]));
      }
    }
    ENG_TRY(c.program->run());
    Tensor output;
    ENG_TRY(c.program->fetch(c.step.predictions, output));
    if (output.shape().empty() || output.shape()[0] != batch.size) return invalid("the output has shape ", output.shape(), " for ", batch.size, " samples: no row a sample");
    if (!all.defined()) {
      Shape shape = output.shape();
      shape[0] = pipeline.size();
      all = Tensor(output.dtype(), shape);
    }
    const size_t row_bytes = output.byte_count() / static_cast<size_t>(batch.size);
    std::memcpy(all.mutable_bytes() + static_cast<size_t>(row) * row_bytes, output.bytes(), output.byte_count());
    row += batch.size;
  }
  if (row != pipeline.size()) return invalid(pipeline.size() - row, " samples could not be read: ", pipeline.skipped().back().path, ": ", pipeline.skipped().back().reason);
  if (row == 0) return invalid(o.data, " holds no sample");
  return all;
}

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  std::string out = "\"";
  for (char c : text) out += c == '"' ? "\"\"" : std::string(1, c);
  return out + "\"";
}

std::string csv(const Predictions& p, const Probabilities& q) {
  const bool named = static_cast<int64_t>(p.classes.size()) == std::max<int64_t>(q.columns, 2);
  const auto class_name = [&](int64_t c) { return named ? p.classes[static_cast<size_t>(c)] : std::to_string(c); };
  std::string text = p.labels.empty() ? "sample,prediction" : "sample,label,prediction";
  for (int64_t c = 0; c < q.columns; ++c) text += "," + csv_field(q.columns == 1 ? "p(" + class_name(1) + ")" : "p(" + class_name(c) + ")");
  text += "\n";
  for (int64_t r = 0; r < q.rows; ++r) {
    text += csv_field(p.samples[static_cast<size_t>(r)]);
    if (!p.labels.empty()) text += "," + csv_field(class_name(p.labels[static_cast<size_t>(r)]));
    const int64_t predicted = predicted_class(q, r);
    text += "," + (predicted < 0 ? "" : csv_field(class_name(predicted)));  // empty: the scores are no numbers
    for (int64_t c = 0; c < q.columns; ++c) text += fmt::format(",{:.9g}", q.values[static_cast<size_t>(r * q.columns + c)]);
    text += "\n";
  }
  return text;
}

Status print_metrics(const PredictOptions& o, const Predictions& p, const Probabilities& q) {
  if (p.labels.empty()) return usage_error("--metrics needs labels: class folders with the model's class names, or an array y");
  for (int64_t label : p.labels) {
    if (label < 0 || label >= std::max<int64_t>(q.columns, 2)) return invalid("label ", label, " is outside of the model's ", q.columns, " outputs");
  }
  nlohmann::ordered_json j;
  for (const std::string& name : o.metrics) {
    if (name == "accuracy") j[name] = accuracy(q, p.labels);
    if (name == "log_loss") j[name] = log_loss(q, p.labels);
    if (name == "auc") {
      ENG_ASSIGN(const double auc, area_under_curve(q, p.labels));
      j[name] = auc;
    }
  }
  j["samples"] = q.rows;
  std::printf("%s\n", j.dump().c_str());
  return {};
}

bool ends_with(const std::string& text, const std::string& end) { return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0; }

Status deliver(const PredictOptions& o, const Predictions& p, const Console& console) {
  if (ends_with(o.out, ".npz")) {
    std::map<std::string, Tensor> arrays{{p.name, p.output}};
    if (!p.labels.empty()) arrays[p.name == "y" ? "labels" : "y"] = Tensor::ints(p.labels);
    ENG_TRY(write_npz(o.out, arrays));
    if (o.metrics.empty()) return {};
  }
  std::string note;
  ENG_ASSIGN(const Probabilities q, to_probabilities(p.output, note));
  console.note(note);
  if (ends_with(o.out, ".csv")) ENG_TRY(write_file_atomic(o.out, csv(p, q)));
  if (o.out.empty() && o.metrics.empty()) {  // as it is for a file or pipe: the names of samples are data there
    const std::string text = csv(p, q);
    std::fputs((isatty(STDOUT_FILENO) == 1 ? for_terminal(text) : text).c_str(), stdout);
  }
  return o.metrics.empty() ? Status() : print_metrics(o, p, q);
}

Status predict(PredictOptions o, const std::vector<std::string>& given, const Console& console, Progress& progress) {
  if (!o.out.empty() && !ends_with(o.out, ".csv") && !ends_with(o.out, ".npz")) return usage_error("--out ", o.out, ": a name ending in .csv or .npz is wanted");
  ENG_TRY(keep_inputs(o.out, {o.model, o.data}));
  DeviceOptions device_options;
  device_options.threads = static_cast<int>(o.threads);
  ENG_TRY(load_backends_for({o.devices}, ""));
  ENG_ASSIGN(const std::shared_ptr<Device> device, Device::open(o.devices, device_options));
  std::shared_ptr<Device> host = device;
  if (!device->host_visible()) {
    ENG_ASSIGN(host, Device::open("cpu:0", device_options));
  }
  ENG_ASSIGN(const Graph model, read_model(o.model, console));
  o.target = target_of(model, o.target);
  ENG_TRY(check_part(model, o.target, console).in(o.model));
  ENG_ASSIGN(const Graph part, part_for(model, o.target));
  Predictions p;
  ENG_ASSIGN(p.classes, classes_from(model.metadata));
  p.name = part.value(part.outputs[0]).name;
  const bool folder = file_info(o.data).kind == FileKind::kFolder;
  if (const std::string name = first_of(given, picture_options()); !folder && !name.empty()) {
    return usage_error(name, " is for pictures; ", o.data, " holds arrays, which are taken as they are: scale them where they are made");
  }
  // Without class names in the file, class folders number themselves.
  std::vector<std::string> others;
  bool labelled = folder && (p.classes.empty() ? !o.metrics.empty() : labelled_folder(o.data, p.classes, others));
  if (!labelled && !others.empty() && !p.classes.empty()) {
    const std::string text = cat(o.data, ": folder '", others[0], "'", others.size() > 1 ? cat(" and ", others.size() - 1, " more") : "",
                                 others.size() > 1 ? " are no classes of the model" : " is no class of the model");
    if (!o.metrics.empty()) return usage_error("--metrics needs labels: ", text, "; its classes are ", classes_to_json(p.classes));
    console.warn(text + ": the pictures are taken as unlabelled");
  }
  ENG_ASSIGN(DataSource source, open_data(o.data, labelled && !p.classes.empty() ? &p.classes : nullptr, !labelled));
  if (labelled && p.classes.empty()) p.classes = source.index.classes;
  if (const Tensor* y = source.labels(); y && !is_floating(y->dtype())) p.labels = y->to_ints();
  std::vector<SampleSpec> specs;
  ENG_ASSIGN(std::shared_ptr<Dataset> data, make_dataset(std::move(source), part, o, given, labelled, specs, console, progress));
  console.note(o.data + ": " + data->describe());
  for (const SkippedFile& f : data->skipped()) console.warn("left out: " + printable(f.path) + ": " + f.reason);
  for (int64_t i = 0; i < data->size(); ++i) {
    p.samples.push_back(data->sample_name(i));
    if (labelled) p.labels.push_back(data->class_of(i));
  }
  PipelineOptions pipeline_options;
  pipeline_options.batch_size = o.batch;
  pipeline_options.shuffle = false;
  pipeline_options.workers = worker_count(o.input);
  pipeline_options.skip_failed_samples = false;
  ENG_ASSIGN(const auto pipeline, DataPipeline::create(data, pipeline_options));
  ENG_ASSIGN(p.output, run_all(model, o, device, host, specs, *pipeline, progress));
  ENG_TRY(check_numbers(p, o, console));
  return deliver(o, p, console);
}

int main_of(const std::vector<std::string>& words) {
  ignore_file_size_signal();
  PredictOptions options;
  const OptionTable table = predict_table(options);
  const auto line = parse_options(table, words);
  if (!line.ok()) return Console(1).finish(line.status());
  if (line->version) return std::fputs(version_text(predict_table(options)).c_str(), stdout) < 0;
  if (line->help) {
    PredictOptions defaults;
    std::fputs(help_text(predict_table(defaults)).c_str(), stdout);
    return 0;
  }
  if (options.model.empty() || options.data.empty()) return Console(1).finish(usage_error("a model and --data are wanted; usage: ", table.usage));
  Progress progress(static_cast<int>(options.verbose), 0);
  const Console console(static_cast<int>(options.verbose), &progress);
  return console.finish(predict(options, line->given, console, progress));
}

}  // namespace
}  // namespace eng::tools

int main(int argc, char** argv) { return eng::tools::main_of({argv + 1, argv + argc}); }

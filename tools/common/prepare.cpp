// See prepare.h. The order: model, data found, weights, head, freezing, loss, data sets.
#include "tools/common/prepare.h"

#include <algorithm>
#include <cmath>

#include "engine/data/random.h"
#include "engine/exec/evaluate.h"
#include "engine/io/file.h"
#include "engine/plugin/loader.h"
#include "graph/surgery/freeze.h"
#include "graph/surgery/replace_head.h"
#include "importers/image/decode.h"
#include "importers/weights/weights.h"
#include "tools/common/model_source.h"

namespace eng::tools {
namespace {

std::string joined(const std::vector<std::string>& names, size_t most = 8) {
  std::string text;
  for (size_t i = 0; i < names.size() && i < most; ++i) text += (i ? ", " : "") + names[i];
  return names.size() > most ? cat(text, " and ", names.size() - most, " more") : text;
}

// Scale and variance of a batch normalisation begin at one, all other vectors at zero.
bool begins_at_one(const Graph& model, ValueId id) {
  for (NodeId n : model.live_nodes()) {
    const Node& node = model.node(n);
    if (node.op_type == "BatchNormalization" && node.inputs.size() == 5 && (node.inputs[1] == id || node.inputs[4] == id)) return true;
  }
  return false;
}

// A parameter that a weights file has in another shape starts anew: Glorot uniform (Keras's default).
void initialise(Graph& model, ValueId id, uint64_t seed, int64_t number) {
  Value& value = model.value(id);
  Tensor fresh(value.data->dtype(), value.data->shape());
  const Shape& shape = fresh.shape();
  const double vector_value = begins_at_one(model, id) ? 1 : 0;
  CounterRandom random(seed, Purpose::kInitialise, 0, number);
  double limit = 0;
  if (shape.size() >= 2) {
    const double window = static_cast<double>(fresh.element_count() / std::max<int64_t>(1, shape[0] * shape[1]));
    limit = std::sqrt(6.0 / (static_cast<double>(shape[0] + shape[1]) * window));
  }
  for (int64_t i = 0; i < fresh.element_count(); ++i) fresh.set(i, shape.size() >= 2 ? random.uniform(-limit, limit) : vector_value);
  value.data = std::make_shared<const Tensor>(std::move(fresh));
}

Status load(Graph& model, const TrainOptions& o, const Console& console) {
  if (o.weights.empty()) {
    return o.skip_mismatch || o.drop_background ? usage_error("--skip-mismatch and --drop-background belong to --weights, which is not given") : Status();
  }
  auto loaded = load_weights(model, o.weights, {.skip_mismatch = o.skip_mismatch, .drop_background = o.drop_background});
  const std::string& file = o.weights;
  const bool known = file.ends_with(".onnx") || file.ends_with(".h5") || file.ends_with(".hdf5") || file.ends_with(".safetensors");
  if (!loaded.ok() && !known) return Status(loaded.status().code(), "--weights " + loaded.status().message() + "; known are .onnx, .h5, .hdf5 and .safetensors files");
  ENG_ASSIGN(const LoadReport report, std::move(loaded));
  for (const std::string& line : report.summary()) console.note(o.weights + ": " + line);
  int64_t number = 0;
  for (const LoadReport::Skipped& s : report.skipped) {
    if (s.value != kNoValue && model.value(s.value).data) initialise(model, s.value, static_cast<uint64_t>(o.seed), number++);
  }
  return {};
}

ShapeBinding binding_of(const std::vector<SampleSpec>& inputs, int64_t batch) {
  ShapeBinding b;
  b.batch = batch;
  for (const SampleSpec& spec : inputs) {
    b.shapes[spec.name] = Shape{batch};
    b.shapes[spec.name].insert(b.shapes[spec.name].end(), spec.shape.begin(), spec.shape.end());
  }
  return b;
}

Status new_head(Graph& model, const TrainOptions& o, const DataSource& data, const ShapeBinding& binding, const Evaluator& evaluator, const Console& console) {
  if (o.replace_head.empty()) {
    if (!o.cut_at.empty() || o.new_head_dropout > 0) return usage_error("--cut-at and --new-head-dropout belong to --replace-head, which is not given");
    return {};
  }
  HeadOptions head;
  head.cut_at = o.cut_at;
  head.dropout = o.new_head_dropout;
  head.seed = static_cast<uint64_t>(o.seed);
  head.target = o.target;
  if (o.replace_head == "auto") {
    head.classes = data.class_count();
    if (head.classes == 0) return usage_error("--replace-head auto: the labels of ", data.path, " are no classes; give the number of outputs");
  } else {
    const auto n = parse_number(o.replace_head);
    if (!n.ok() || *n < 1 || *n != std::floor(*n) || *n > 1e7) return usage_error("--replace-head '", o.replace_head, "': a number of classes or auto is wanted");
    head.classes = static_cast<int64_t>(*n);
  }
  ENG_ASSIGN(const HeadReport report, replace_head(model, head, binding, evaluator));
  console.note("head: found " + report.found);
  console.note("head: cut   " + report.cut);
  console.note("head: put   " + report.put);
  return {};
}

// The file's fixed picture size gives way to the one that is trained with, so that the exported model says what it takes.
void declare_size(Value& input, const Shape& sample, const Console& console) {
  const std::string before = dims_text(input);
  bool changed = false;
  for (size_t k = 0; k < sample.size(); ++k) {
    int64_t& declared = input.declared_dims[k + 1];
    if (declared < 0 || declared == sample[k]) continue;
    declared = sample[k];
    changed = true;
  }
  if (changed) console.note("input '" + input.name + "' is declared " + before + " in the file; it is trained and exported as " + dims_text(input));
}

// Whether float labels are one-hot rows.
bool one_hot(const Tensor& y) {
  if (y.shape().size() != 2 || y.shape()[1] < 2) return false;
  const int64_t rows = y.shape()[0], columns = y.shape()[1];
  for (int64_t r = 0; r < rows; ++r) {
    int64_t ones = 0;
    for (int64_t c = 0; c < columns; ++c) {
      const double v = y.at(r * columns + c);
      if (v != 0 && v != 1) return false;
      ones += v == 1;
    }
    if (ones != 1) return false;
  }
  return true;
}

bool within_unit_interval(const Tensor& y) {
  for (int64_t i = 0; i < y.element_count(); ++i) {
    if (!(y.at(i) >= 0 && y.at(i) <= 1)) return false;
  }
  return true;
}

// --loss, --class-mode and the labels' type decide together; kAuto is settled by the model's tail unless the labels say more.
Result<LossKind> choose_loss(const TrainOptions& o, const DataSource& data, LossKind from_tail) {
  if (o.class_mode == "none") return usage_error("--class-mode none: training needs labels");
  if (o.loss != "auto") return parse_loss(o.loss);
  if (o.class_mode == "sparse") return LossKind::kSparseCategorical;
  if (o.class_mode == "categorical") return LossKind::kCategorical;
  if (o.class_mode == "binary") return LossKind::kBinary;
  if (!data.float_labels()) return from_tail;
  const Tensor& y = *data.labels();
  if (from_tail == LossKind::kBinary && within_unit_interval(y)) return from_tail;
  return one_hot(y) ? LossKind::kCategorical : LossKind::kMeanSquaredError;
}

// Labels in arrays have the form that the loss takes: class numbers, rows of scores, or targets of the output's own shape.
Status check_label_form(const Step& plan, const DataSource& data) {
  const Tensor* y = data.labels();
  if (data.folder || !y || y->shape().empty()) return {};
  const Shape row(y->shape().begin() + 1, y->shape().end());
  const std::string got = cat(data.path, ": the labels, array y, are ", name_of(y->dtype()), " ", y->shape(), "; --loss ", name_of(plan.loss_kind), " takes ");
  const bool classes = plan.loss_kind == LossKind::kSparseCategorical || plan.loss_kind == LossKind::kCategorical;
  if (classes && data.float_labels()) {
    const bool rows = row.size() == 1 && row[0] == plan.classes;
    if (rows && plan.loss_kind == LossKind::kCategorical) return {};
    const std::string numbers = "class numbers as integers [N] (y.astype('int64'))";
    const std::string one_hot = cat("rows of ", plan.classes, " floats [N,", plan.classes, "]");
    return invalid(got, plan.loss_kind == LossKind::kCategorical ? one_hot + " or " + numbers : numbers,
                   rows ? ": one-hot rows go with --loss categorical_crossentropy" : row.size() == 1 && row[0] > 1 ? cat("; the model has ", plan.classes, " outputs, y has ", row[0], " columns") : "");
  }
  if (plan.loss_kind != LossKind::kMeanSquaredError || plan.labels == kNoValue) return {};
  const Value& targets = plan.graph.value(plan.labels);
  if (!targets.has_shape || targets.shape.empty()) return {};
  const Shape wanted(targets.shape.begin() + 1, targets.shape.end());
  if (element_count(wanted) == element_count(row)) return {};
  return invalid(got, "one target for each number of the model's output: a sample of y must be ", wanted, ", it is ", row);
}

Result<ClassMode> choose_class_mode(const TrainOptions& o, LossKind loss) {
  const ClassMode wanted = loss == LossKind::kCategorical ? ClassMode::kCategorical : loss == LossKind::kBinary ? ClassMode::kBinary : ClassMode::kSparse;
  if (o.class_mode == "auto") return wanted;
  ENG_ASSIGN(const ClassMode given, class_mode_from(o.class_mode));
  if (given != wanted && loss != LossKind::kMeanSquaredError) {
    return usage_error("--class-mode ", o.class_mode, " does not fit --loss ", name_of(loss), ", which takes ", name_of(wanted), " labels");
  }
  return given;
}

Status check_classes(const Step& plan, const DataSource& data) {
  const bool classes = plan.loss_kind == LossKind::kSparseCategorical || plan.loss_kind == LossKind::kCategorical;
  const int64_t found = data.class_count();
  if (data.folder && plan.loss_kind == LossKind::kBinary && found != 2) {
    return invalid(data.path, " has ", found, " classes and the model one output for two: give --replace-head ", found, " or --loss categorical_crossentropy");
  }
  if (data.folder && plan.loss_kind == LossKind::kMeanSquaredError) {
    return usage_error("--loss mean_squared_error needs arrays with targets (--data FILE.npz); class folders have classes");
  }
  if (!classes || found == 0 || (data.folder ? found == plan.classes : found <= plan.classes)) return {};
  return invalid(data.path, " has ", found, " classes, the model ", plan.classes, " outputs: give --replace-head ", found, " (or auto) for a new last layer");
}

Result<AugmentOptions> augment_of(const TrainOptions& o) {
  AugmentOptions a;
  a.rotation = o.rotate;
  a.shear = o.shear;
  if (o.shift.size() > 2) return usage_error("--shift: one value, or one for the width and one for the height, is wanted");
  if (!o.shift.empty()) a.width_shift = o.shift.front(), a.height_shift = o.shift.back();
  if (o.zoom.size() == 1) a.zoom_low = 1 - o.zoom[0], a.zoom_high = 1 + o.zoom[0];
  if (o.zoom.size() == 2) a.zoom_low = o.zoom[0], a.zoom_high = o.zoom[1];
  if (o.zoom.size() > 2) return usage_error("--zoom: Z or LOW,HIGH is wanted");
  a.horizontal_flip = o.hflip;
  a.vertical_flip = o.vflip;
  if (o.brightness.size() == 2) a.brightness_low = o.brightness[0], a.brightness_high = o.brightness[1];
  else if (!o.brightness.empty()) return usage_error("--brightness: LOW,HIGH is wanted");
  ENG_ASSIGN(a.fill_mode, fill_mode_from(o.fill_mode));
  ENG_TRY(a.check());
  return a;
}

// Makes data sets of one source for a plan.
class DatasetMaker {
 public:
  DatasetMaker(const TrainOptions& o, const Prepared& p, ClassMode mode, Progress& progress) : o_(o), p_(p), mode_(mode), progress_(progress) {}

  Result<std::shared_ptr<Dataset>> make(DataSource source, bool training) const {
    const std::vector<SampleSpec>& inputs = p_.steps->inputs();
    if (!source.folder) {
      ArrayOptions options;
      options.class_mode = mode_;
      options.class_count = p_.plan.loss_kind == LossKind::kBinary ? 2 : p_.plan.classes;
      options.source = source.path;
      if (p_.plan.loss_kind == LossKind::kMeanSquaredError && !source.float_labels()) source.arrays["y"] = as_floats(*source.labels());
      return make_array_dataset(std::move(source.arrays), inputs, options);
    }
    ImageFolderOptions options;
    options.preprocessing = p_.preprocessing;
    if (training) {
      ENG_ASSIGN(options.augment, augment_of(o_));
    }
    options.class_mode = mode_;
    options.on_bad_image = o_.on_bad_image == "fail" ? OnBadImage::kFail : OnBadImage::kSkip;
    options.input_name = inputs[0].name;
    options.workers = worker_count(o_.input);
    options.cache_bytes = o_.input.cache << 20;
    options.every_class_needed = training;
    options.progress = [this, training](int64_t done, int64_t total) { progress_.stage(training ? "reading pictures" : "reading validation pictures", done, total); };
    const DecodeFn decode = [](const std::byte* bytes, size_t count, const DecodeOptions& d, Image& image) { return decode_image(bytes, count, d, image); };
    return make_image_folder(std::move(source.index), std::move(options), decode);
  }

 private:
  static Tensor as_floats(const Tensor& t) {
    Tensor out(DType::kFloat32, t.shape());
    for (int64_t i = 0; i < t.element_count(); ++i) out.set(i, t.at(i));
    return out;
  }
  const TrainOptions& o_;
  const Prepared& p_;
  ClassMode mode_;
  Progress& progress_;
};

void report_files(const Dataset& data, const std::string& path, const Console& console) {
  console.note(path + ": " + data.describe());
  for (const SkippedFile& f : data.skipped()) console.warn("left out: " + printable(f.path) + ": " + f.reason);
}

// What a step of the batch needs beyond `limit` bytes: 0 where it keeps to them on all ranks, else bytes with which more of it can be made: the first program that does
// not fit tells of its own need alone.
Result<uint64_t> need_beyond(Prepared& p, int64_t batch, uint64_t limit) {
  p.steps->limit_memory(limit);
  const auto bytes = p.steps->prepare(batch);
  const uint64_t smallest = p.steps->memory_choice().smallest;
  if (!bytes.ok() && smallest <= limit) return bytes.status();  // another reason, such as a device with less memory
  const uint64_t own = !bytes.ok() ? smallest : *bytes > limit ? *bytes : 0;
  Ranks& ranks = *p.fleet->ranks;
  std::vector<uint64_t> all(static_cast<size_t>(ranks.size()));
  ENG_TRY(ranks.gather_all(&own, sizeof own, all.data()));
  return *std::max_element(all.begin(), all.end());
}

// --memory: what is not kept is made again; where that is not enough and --shards leaves it open, the batch is cut into more shards.
Status fit_into_memory(const TrainOptions& o, DeviceChoice& choice, Prepared& p, const std::function<void(std::shared_ptr<Fleet>)>& make_steps, const Console& console) {
  ENG_ASSIGN(const uint64_t limit, parse_bytes(o.memory, "--memory"));
  FleetOptions options = choice.fleet_options;
  const auto make_anew = [&]() -> Status {
    ENG_ASSIGN(std::shared_ptr<Fleet> fleet, Fleet::open(options, p.fleet->ranks));
    make_steps(std::move(fleet));
    return {};
  };
  for (;;) {
    ENG_ASSIGN(uint64_t need, need_beyond(p, o.batch, limit));
    const ModelSteps::MemoryChoice& m = p.steps->memory_choice();
    const auto mib = [](uint64_t b) { return cat(static_cast<int64_t>((static_cast<double>(b) / (1 << 20)) * 10 + 0.5) / 10.0, " MiB"); };
    if (need == 0) {
      ENG_ASSIGN(const uint64_t bytes, p.steps->prepare(o.batch));
      console.note(cat("memory: ", mib(bytes), " of ", mib(limit), " a device",
                       m.recomputed ? cat("; ", m.recomputed, " activations are made again in the backward phase (predicted ", static_cast<int64_t>(m.slow_down * 100 + 0.5) / 100.0, " x the time; without that ",
                                          mib(m.bytes_without), ")")
                                    : std::string("; everything is kept"),
                       p.fleet->shards > p.fleet->replica_count() ? cat("; the batch is computed in ", p.fleet->shards, " shards, one after the other") : std::string()));
      return {};
    }
    const int64_t shards = p.fleet->shards * 2;
    if (o.shards > 0 || shards > o.batch || o.batch % shards != 0 || choice.placer) {
      uint64_t least = limit;
      for (int tries = 0; tries < 8 && need > 0; ++tries) {  // tried out as a run of its own would
        least = need;
        ENG_TRY(make_anew());
        ENG_ASSIGN(need, need_beyond(p, o.batch, least));
      }
      return usage_error("--memory ", o.memory, ": the step needs at least ", least, " bytes (", mib(least), ") of each device, with all that can be made again and ",
                         o.shards > 0 ? cat("the batch in the ", o.shards, o.shards == 1 ? " shard" : " shards", " of --shards") : cat("the batch in up to ", p.fleet->shards, " shards"), ": give --memory ", least, " or more, or a smaller --batch");
    }
    options.shards = shards;
    ENG_TRY(make_anew());
  }
}

}  // namespace

Result<std::unique_ptr<Prepared>> prepare_training(const TrainOptions& o, std::shared_ptr<Ranks> ranks, const Console& console, Progress& progress) {
  auto p = std::make_unique<Prepared>();
  ENG_ASSIGN(const std::vector<std::string> names, device_names(o.devices, ranks->local_rank()));
  ENG_TRY(load_backends_for(names, o.backend_path));
  for (const std::string& name : names) {  // an unknown one is said before anything is read
    const Status opened = Device::open(name).status();
    if (!opened.ok() && o.devices.find(":rank") != std::string::npos)
      return Status(opened.code(), cat(opened.message(), " (--devices ", o.devices, ": for 'rank' stands ", ranks->local_rank(), ", the number of this rank on its host; where CUDA_VISIBLE_DEVICES shows each rank a GPU of its own, that one is cuda:0)"));
    ENG_TRY(opened);
  }
  ENG_ASSIGN(const std::shared_ptr<Device> host, Device::open("cpu:0"));  // constants are folded on the CPU, whatever computes the steps
  const Evaluator evaluator = evaluator_on(host);

  ENG_ASSIGN(Graph model, read_model(o.model, console));
  ENG_TRY(check_part(model, o.target, console).in(o.model));
  ENG_ASSIGN(DataSource data, open_data(o.data, nullptr));
  p->pictures = data.folder;
  if (!data.folder) {
    TrainOptions now = o, defaults;
    const std::string name = first_of(changed_options(train_table(now), train_table(defaults)), picture_options());
    if (!name.empty()) return usage_error(name, " is for pictures; ", o.data, " holds arrays, which are taken as they are: scale them where they are made");
  }
  p->classes = data.index.classes;
  for (const SkippedFile& f : data.index.ignored) console.note("ignored: " + f.path + " (" + f.reason + ")");
  ENG_ASSIGN(const Graph part, part_for(model, o.target));
  if (data.folder) {
    if (part.inputs.size() != 1) return invalid("the model has ", part.inputs.size(), " inputs; picture folders feed one: give arrays with --data FILE.npz");
    const Value& input = part.value(part.inputs[0]);
    ENG_ASSIGN(p->preprocessing, preprocessing_for(o.input, input.name, input.declared_dims));
  }
  ENG_ASSIGN(const std::vector<SampleSpec> inputs, input_specs(part, data, p->preprocessing));
  for (ValueId id : part.inputs) {
    if (!data.folder && !is_batched(part, id) && !data.arrays.count(part.value(id).name)) console.note("input '" + part.value(id).name + "' has no batch dimension: it is kept at zero");
  }
  if (data.folder) declare_size(model.value(model.find_value(inputs[0].name)), inputs[0].shape, console);

  ENG_TRY(load(model, o, console));
  ENG_TRY(new_head(model, o, data, binding_of(inputs, o.batch), evaluator, console).in(o.model));
  if (!o.freeze.empty()) {
    ENG_ASSIGN(const std::vector<std::string> frozen, freeze(model, o.freeze));
    console.note(cat("frozen: ", frozen.size(), " weights: ", joined(frozen)));
  } else if (o.unfreeze_at > 0) {
    return usage_error("--unfreeze-at belongs to --freeze, which is not given");
  }

  StepOptions step;
  step.optimizer = o.optimizer;
  step.freeze_bn = o.freeze_bn;
  step.target = o.target;
  step.seed = static_cast<uint64_t>(o.seed);
  LossKind from_tail = LossKind::kAuto;
  if (o.loss == "auto") {  // a loss that was named need not be one that the model's tail would suggest
    ENG_ASSIGN(const Step auto_plan, build_training_step(model, binding_of(inputs, o.batch), step, evaluator));
    from_tail = auto_plan.loss_kind;
  }
  ENG_ASSIGN(step.loss, choose_loss(o, data, from_tail));
  const auto step_of = [&](int64_t rows) { return build_training_step(model, binding_of(inputs, rows), step, evaluator); };
  ENG_ASSIGN(DeviceChoice choice, choose_devices(o, std::move(ranks), model, step_of, console));
  p->device_plan = std::move(choice.plan);
  const auto make_steps = [&](std::shared_ptr<Fleet> fleet) {
    p->fleet = std::move(fleet);
    step.sync_batch_norm = o.sync_bn && !p->fleet->single();
    p->steps = std::make_unique<ModelSteps>(model, p->fleet, evaluator, step, inputs, choice.placer);
  };
  make_steps(choice.fleet);
  if (!o.memory.empty()) ENG_TRY(fit_into_memory(o, choice, *p, make_steps, console));
  if (p->fleet->shards > 1 || names.size() > 1) console.note("devices: " + p->fleet->describe());
  ENG_ASSIGN(p->plan, p->steps->plan(o.batch));
  console.note("loss: " + p->plan.loss_note);
  ENG_TRY(check_classes(p->plan, data));
  ENG_TRY(check_label_form(p->plan, data));
  ENG_ASSIGN(const ClassMode mode, choose_class_mode(o, p->plan.loss_kind));
  p->class_mode = mode;

  const DatasetMaker maker(o, *p, mode, progress);
  const uint64_t seed = static_cast<uint64_t>(o.seed);
  if (!o.val.empty()) {
    const std::vector<std::string>* classes = data.folder ? &p->classes : nullptr;
    ENG_ASSIGN(DataSource val, open_data(o.val, classes));
    if (val.folder != data.folder) return usage_error("--data and --val must be of one kind: two folders or two .npz files");
    ENG_ASSIGN(p->validation, maker.make(std::move(val), false));
  }
  if (o.val_split > 0 && data.folder) {
    ENG_ASSIGN(auto halves, split_classes(data.index, o.val_split, seed));
    DataSource val = data;
    val.index = std::move(halves.second);
    data.index = std::move(halves.first);
    ENG_ASSIGN(p->validation, maker.make(std::move(val), false));
  }
  ENG_ASSIGN(p->training, maker.make(std::move(data), true));
  if (o.val_split > 0 && !p->validation) {
    ENG_ASSIGN(auto halves, split_dataset(p->training, o.val_split, seed));
    p->training = halves.first;
    p->validation = halves.second;
  }
  if (p->classes.empty()) p->classes = p->training->classes();
  report_files(*p->training, o.data, console);
  if (p->validation) report_files(*p->validation, o.val.empty() ? "validation part" : o.val, console);

  PipelineOptions pipeline;
  pipeline.batch_size = o.batch;
  pipeline.shuffle = o.shuffle;
  pipeline.seed = seed;
  pipeline.augment = true;
  pipeline.workers = worker_count(o.input);
  pipeline.skip_failed_samples = o.on_bad_image != "fail";
  if (p->fleet->ranks->size() > 1) {  // each rank loads what its shards need; a file that breaks later would make the ranks' batches differ
    pipeline.part = [fleet = p->fleet](int64_t rows) { return fleet->rows_of_rank(rows); };
    pipeline.skip_failed_samples = false;
  }
  ENG_ASSIGN(p->training_pipeline, DataPipeline::create(p->training, pipeline));
  if (p->validation) {
    pipeline.shuffle = pipeline.augment = false;
    ENG_ASSIGN(p->validation_pipeline, DataPipeline::create(p->validation, pipeline));
  }
  return p;
}

}  // namespace eng::tools

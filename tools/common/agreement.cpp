// See agreement.h.
#include "tools/common/agreement.h"

#include <algorithm>
#include <sstream>

#include "engine/distributed/text_of_rank.h"
#include "engine/io/checksum.h"

namespace eng::tools {
namespace {

struct Fingerprint {
  uint32_t options = 0, model = 0, training = 0, validation = 0;
};

uint32_t of_text(const std::string& text, uint32_t crc = 0) { return crc32c(text.data(), text.size(), crc); }

uint32_t of_model(const Graph& g) {
  uint32_t crc = of_text(print(g));
  for (ValueId v = 0; v < g.value_count(); ++v)
    if (g.value(v).data) crc = crc32c(g.value(v).data->bytes(), g.value(v).data->byte_count(), crc);
  return crc;
}

// Classes, number of samples and up to 16 of them, evenly spread, as they are loaded.
Result<uint32_t> of_data(const Dataset* data) {
  if (!data) return 0u;
  uint32_t crc = of_text(cat(data->size()));
  for (const std::string& name : data->classes()) crc = of_text(name + "\n", crc);
  std::vector<std::vector<std::byte>> rows;
  std::vector<std::byte*> pointers;
  for (const SampleSpec& spec : data->inputs()) rows.emplace_back(static_cast<size_t>(element_count(spec.shape)) * size_of(spec.dtype));
  for (auto& row : rows) pointers.push_back(row.data());
  std::vector<std::byte> label(data->label().dtype == DType::kUndefined ? 0 : static_cast<size_t>(element_count(data->label().shape)) * size_of(data->label().dtype));
  const int64_t count = std::min<int64_t>(data->size(), 16);
  for (int64_t i = 0; i < count; ++i) {
    ENG_TRY(data->load(i * data->size() / count, {}, pointers, label.empty() ? nullptr : label.data()));
    for (const auto& row : rows) crc = crc32c(row.data(), row.size(), crc);
    crc = crc32c(label.data(), label.size(), crc);
  }
  return crc;
}

// The lines in which two configurations differ: "devices = "cpu:0", not "cpu:1"; seed = ...".
std::string differences(const std::string& theirs, const std::string& wanted) {
  std::istringstream a(theirs), b(wanted);
  std::string out;
  for (std::string x, y; std::getline(a, x) && std::getline(b, y);) {
    const size_t value = y.find(" = ");
    if (x != y) out += cat(out.empty() ? "" : "; ", x, ", not ", value == std::string::npos ? y : y.substr(value + 3));
  }
  return out;
}

}  // namespace

Status check_agreement(TrainOptions o, const Prepared& p) {
  Ranks& ranks = *p.fleet->ranks;
  if (ranks.size() == 1) return {};
  Fingerprint mine;
  const std::string config = write_config(train_table(o), {"model", "--data", "--val", "--out", "--verbose", "--workers", "--cache", "--config", "--weights", "--backend-path", "--placement", "--plan"});
  mine.options = of_text(config);
  mine.model = of_model(p.steps->model());
  ENG_ASSIGN(mine.training, of_data(p.training.get()));
  ENG_ASSIGN(mine.validation, of_data(p.validation.get()));
  std::vector<Fingerprint> all(static_cast<size_t>(ranks.size()));
  ENG_TRY(ranks.gather_all(&mine, sizeof mine, all.data()));
  for (int r = 1; r < ranks.size(); ++r) {
    const Fingerprint &a = all[0], &b = all[static_cast<size_t>(r)];
    std::string what;
    const auto differs = [&](bool yes, const char* name) {
      if (yes) what += (what.empty() ? "" : ", ") + std::string(name);
    };
    differs(a.options != b.options, "options");
    differs(a.model != b.model, "model or weights");
    differs(a.training != b.training, "training data");
    differs(a.validation != b.validation, "validation data");
    if (what.empty()) continue;
    std::string lines;
    if (a.options != b.options) {  // all ranks are here: all have the same list of fingerprints
      ENG_ASSIGN(const std::string wanted, text_of_rank(ranks, 0, config));
      ENG_ASSIGN(const std::string theirs, text_of_rank(ranks, r, config));
      lines = " (" + differences(theirs, wanted) + ")";
    }
    return usage_error("rank ", r, " (host ", ranks.host_of(r), ") was given other ", what, " than rank 0 (host ", ranks.host_of(0), ")", lines, ": all ranks of a run need the same options and the same files");
  }
  return {};
}

}  // namespace eng::tools

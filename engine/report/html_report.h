// report.html: one self-contained page of a run: what was trained on what, the curves of loss and accuracy (SVG, no script), a table of
// epochs, and the confusion matrix of the validation data where there is one. Written from metrics.jsonl's records.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "engine/train/metrics.h"
#include "graph/base/status.h"

namespace eng {

struct HtmlReport {
  std::string title;
  std::vector<std::pair<std::string, std::string>> facts;  // shown as a table: model, data, optimiser, ...
  std::vector<EpochRecord> epochs;
  std::vector<std::string> classes;
  std::vector<std::vector<int64_t>> confusion;             // [label][prediction]; empty: left out
  std::string options;                                     // config.toml
};

std::string to_html(const HtmlReport& report);
// The epoch records of a metrics.jsonl, so that a resumed run shows all of its epochs. Lines that are no epochs are passed over.
Result<std::vector<EpochRecord>> read_epochs(const std::string& path);

}  // namespace eng

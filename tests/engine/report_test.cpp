// What a run leaves behind for people: metrics.jsonl, TensorBoard's records, report.html.
#include <doctest/doctest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/io/file.h"
#include "engine/report/html_report.h"
#include "engine/report/metrics_log.h"
#include "engine/report/progress.h"
#include "engine/report/tensorboard.h"
#include "tests/support/temp_folder.h"

namespace eng {
namespace {

std::string hex(const std::string& bytes) {
  std::string out;
  for (char c : bytes) {
    const char* digits = "0123456789abcdef";
    out += digits[static_cast<unsigned char>(c) >> 4];
    out += digits[static_cast<unsigned char>(c) & 15];
  }
  return out;
}

TEST_CASE("TensorBoard's event is the protobuf message that its own package writes") {
  // tensorboard 2.21: Event(wall_time=1.5, step=300, summary=Summary(value=[Summary.Value(tag="loss", simple_value=0.5)])).SerializeToString().hex()
  CHECK(hex(tensorboard_event(1.5, 300, {{"loss", 0.5}})) == "09000000000000f83f10ac022a0d0a0b0a046c6f7373150000003f");
  // and the same through its RecordWriter
  CHECK(hex(tensorboard_record(tensorboard_event(1.5, 300, {{"loss", 0.5}}))) == "1b000000000000001a0d9e1309000000000000f83f10ac022a0d0a0b0a046c6f7373150000003f69f9315b");
}

TEST_CASE("a resumed metrics file keeps the lines up to its step and drops the rest") {
  const TempFolder folder;
  const std::string path = folder / "metrics.jsonl";
  for (int64_t keep : {int64_t{-1}, int64_t{2}}) {
    auto log = MetricsLog::open(path, keep);
    REQUIRE(log.ok());
    for (int64_t step = keep < 0 ? 1 : keep + 1; step <= 4; ++step) {
      StepRecord r;
      r.step = step;
      r.loss = static_cast<double>(step) + (keep < 0 ? 0 : 0.5);
      REQUIRE((*log)->write(to_json_line(r)).ok());
    }
    if (keep < 0) std::ofstream(path, std::ios::app) << "{\"kind\":\"step\",\"step\":1,\"lo";  // cut short by a kill
  }
  std::ifstream in(path);
  std::vector<double> losses;
  for (std::string line; std::getline(in, line);) losses.push_back(nlohmann::json::parse(line)["loss"]);
  CHECK(losses == std::vector<double>{1, 2, 3.5, 4.5});
}

TEST_CASE("not-a-number becomes null, epochs count from 1, absent metrics are absent") {
  EpochRecord r;
  r.epoch = 1;
  r.loss = NAN;
  r.val_loss = 0.25;
  const auto j = nlohmann::json::parse(to_json_line(r));
  CHECK(j["loss"].is_null());
  CHECK(j["epoch"] == 2);
  CHECK(j["val_loss"] == 0.25);
  CHECK_FALSE(j.contains("accuracy"));
}

TEST_CASE("the page holds curves, classes and options, with markup escaped") {
  HtmlReport r;
  r.title = "a<b & \"c\"";
  for (int64_t e = 0; e < 3; ++e) {
    EpochRecord record;
    record.epoch = e;
    record.loss = 3 - static_cast<double>(e);
    record.accuracy = 0.1 * static_cast<double>(e);
    r.epochs.push_back(record);
  }
  r.classes = {"cat", "dog"};
  r.confusion = {{3, 1}, {0, 4}};
  r.options = "out = \"<x>\"";
  const std::string html = to_html(r);
  CHECK(html.find("a&lt;b &amp; &quot;c&quot;") != std::string::npos);
  CHECK(html.find("<polyline points=\"60.0,12.0 300.0,97.0 540.0,182.0 \"") != std::string::npos);  // 3, 2, 1 over the whole frame
  CHECK(html.find("<th>cat</th><td style=\"background:rgba(46,125,50,0.75)\">3</td>") != std::string::npos);
  CHECK(html.find("<td>0.750</td>") != std::string::npos);  // recall of cat
  CHECK(html.find("&lt;x&gt;") != std::string::npos);
  CHECK(html.find("<script") == std::string::npos);
}

TEST_CASE("times are written as people write them") {
  CHECK(clock_text(0) == "0:00");
  CHECK(clock_text(64.2) == "1:05");
  CHECK(clock_text(7390) == "2:03:10");
}

}  // namespace
}  // namespace eng

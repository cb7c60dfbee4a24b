// Option tables: values, bounds, nearest names, refusals, and config.toml there and back.
#include <doctest/doctest.h>

#include "tools/common/option_table.h"
#include "tools/common/toml.h"
#include "tools/common/train_options.h"

namespace eng::tools {
namespace {

Result<TrainLine> read(TrainOptions& o, std::vector<std::string> words) {
  words.insert(words.begin(), {"net.onnx", "--data", "d"});
  return read_train_options(o, words);
}

TEST_CASE("options set their targets; fractions, lists, repeats and negated flags are understood") {
  TrainOptions o;
  const auto line = read(o, {"--rescale", "1/255", "--mean", "0.5,-0.25,1e-1", "--freeze", "a*,b", "--freeze", "c", "--no-shuffle", "--epochs=7", "--hflip"});
  REQUIRE_MESSAGE(line.ok(), line.status().message());
  CHECK(o.model == "net.onnx");
  CHECK(o.input.rescale == 1.0 / 255);
  CHECK(o.input.mean == std::vector<double>{0.5, -0.25, 0.1});
  CHECK(o.freeze == std::vector<std::string>{"a*", "b", "c"});
  CHECK_FALSE(o.shuffle);
  CHECK(o.hflip);
  CHECK(o.epochs == 7);
}

TEST_CASE("wrong command lines are usage errors that say what was wanted") {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases{
      {{"--epocs", "3"}, "did you mean --epochs?"},
      {{"--validation-step", "3"}, "--validation-steps"},
      {{"--epochs", "three"}, "a whole number is wanted"},
      {{"--epochs", "-1"}, "must be at least 0"},
      {{"--batch", "0"}, "must be at least 1"},
      {{"--optimizer", "adamm"}, "did you mean adam or adamw?"},
      {{"--lr", "1/0"}, "is wanted"},
      {{"--plan", "p.json", "--placement", "x.txt"}, "--plan and --placement exclude one another"},
      {{"--val", "a", "--val-split", "0.1"}, "exclude one another"},
      {{"--out", ""}, "--out ''"},
      {{"--beta1", "1", "--optimizer", "adam"}, "--beta1 must be less than 1"},
      {{"--beta2", "1", "--optimizer", "adamw"}, "--beta2 must be less than 1"},
      {{"--rho", "1", "--optimizer", "rmsprop"}, "--rho must be less than 1"},
      {{"--momentum", "0.9", "--optimizer", "adam"}, "--momentum belongs to --optimizer sgd"},
      {{"--nesterov"}, "--nesterov belongs to --momentum"},
      {{"--rho", "0.5"}, "--rho belongs to --optimizer rmsprop"},
      {{"--beta1", "0.5"}, "--beta1 belongs to --optimizer adam"},
      {{"--epsilon", "0.5"}, "--epsilon belongs to"},
      {{"--validation-steps", "3"}, "--validation-steps needs validation data"},
      {{"--save-best-only"}, "--keep"},
      {{"--fill-mode", "wrap"}, "--fill-mode belongs to"},
      {{"--patience", "0"}, "--patience 0: at least 1"},
      {{"--early-stop", "--patience", "0"}, "--patience 0: at least 1"},
      {{"--metrics", "accuracy,none"}, "none goes with no other"},
      {{"--dry-run", "--write-gradients", "g.safetensors"}, "--dry-run trains none"},
      {{"--write-gradients", "g.bin"}, ".safetensors is wanted"},
      {{"other.onnx"}, "unexpected argument 'other.onnx'"},
  };
  for (const auto& [words, text] : cases) {
    TrainOptions o;
    const auto line = read(o, words);
    REQUIRE_MESSAGE(!line.ok(), words[0]);
    CHECK(line.status().code() == Code::kUsage);
    CHECK_MESSAGE(line.status().message().find(text) != std::string::npos, line.status().message());
  }
}

TEST_CASE("--patience switches early stopping on, --early-stop alone waits 5 epochs") {
  TrainOptions off, alone, both, never;
  REQUIRE(read(off, {}).ok());
  CHECK_FALSE(off.early_stop);
  REQUIRE(read(alone, {"--early-stop"}).ok());
  CHECK((alone.early_stop && alone.patience == 5));
  REQUIRE(read(both, {"--patience", "3"}).ok());
  CHECK((both.early_stop && both.patience == 3));
  REQUIRE(read(never, {"--no-early-stop", "--patience", "3"}).ok());
  CHECK_FALSE(never.early_stop);
}

TEST_CASE("checkpoints: epochs, or steps, and nothing that looks like them") {
  int64_t epochs = 7, steps = 7;
  CHECK(parse_checkpoint_every("0", epochs, steps).ok());
  CHECK(epochs == 0);
  CHECK(parse_checkpoint_every("20steps", epochs, steps).ok());
  CHECK(steps == 20);
  for (const char* text : {"2step", "0steps", "steps", "-1", "2 steps"}) CHECK_MESSAGE(!parse_checkpoint_every(text, epochs, steps).ok(), text);
}

TEST_CASE("config.toml reads back to the same options, and the command line wins") {
  TrainOptions o;
  REQUIRE(read(o, {"--lr", "0.1", "--out", "odd \"name\"\\x", "--freeze", "a,b", "--zoom", "0.2", "--momentum", "0.9", "--nesterov", "--epochs", "4"}).ok());
  const std::string text = write_config(train_table(o), {});
  TrainOptions back;
  REQUIRE(read_config(train_table(back), text, "config.toml", {"--epochs"}).ok());
  CHECK(back.lr == 0.1);
  CHECK(back.out == o.out);
  CHECK(back.freeze == o.freeze);
  CHECK(back.zoom == o.zoom);
  CHECK(back.optimizer.nesterov);
  CHECK(back.epochs == 1);  // kept
  back.epochs = 4;
  CHECK(write_config(train_table(back), {}) == text);
}

TEST_CASE("config files with unknown keys or broken lines are refused with their place") {
  TrainOptions o;
  const OptionTable table = train_table(o);
  const Status unknown = read_config(table, "epochs = 3\nleaning-rate = 1\n", "c.toml", {});
  CHECK(unknown.message().find("unknown key 'leaning-rate'") != std::string::npos);
  for (const char* text : {"epochs 3", "[run]\nepochs = 3", "epochs = ", "out = \"x", "freeze = [\"a\"", "epochs = 1\nepochs = 2", "epochs = 1 2"}) {
    const Status s = read_config(table, text, "c.toml", {});
    CHECK_MESSAGE(s.code() == Code::kUsage, text);
    CHECK_MESSAGE(s.message().find("c.toml:") != std::string::npos, s.message());
  }
}

TEST_CASE("help names every option with its default") {
  TrainOptions o;
  const OptionTable table = train_table(o);
  const std::string help = help_text(table);
  for (const OptionGroup& group : table.groups) {
    for (const OptionRow& row : group.rows) CHECK_MESSAGE(help.find("  " + row.name) != std::string::npos, row.name);
  }
  CHECK(help.find("learning rate at the start (default 0.001)") != std::string::npos);
}

}  // namespace
}  // namespace eng::tools

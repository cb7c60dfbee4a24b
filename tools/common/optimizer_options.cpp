// See optimizer_options.h.
#include "tools/common/optimizer_options.h"

namespace eng::tools {

OptionRow optimizer_row(OptimizerSpec& o, const std::string& help) {
  return {.name = "--optimizer", .target = &o.kind, .value = "NAME", .help = help, .choices = {"sgd", "rmsprop", "adam", "adamw"}};
}

std::vector<OptionRow> momentum_rows(OptimizerSpec& o) {
  return {{.name = "--momentum", .target = &o.momentum, .value = "M", .help = "of sgd", .low = 0, .high = 1},
          {.name = "--nesterov", .target = &o.nesterov, .help = "Nesterov's form of the momentum"}};
}

std::vector<OptionRow> adaptive_rows(OptimizerSpec& o) {
  return {{.name = "--rho", .target = &o.rho, .value = "R", .help = "of rmsprop", .low = 0, .high = 1},
          {.name = "--beta1", .target = &o.beta1, .value = "B", .help = "of adam and adamw", .low = 0, .high = 1},
          {.name = "--beta2", .target = &o.beta2, .value = "B", .help = "of adam and adamw", .low = 0, .high = 1},
          {.name = "--epsilon", .target = &o.epsilon, .value = "E", .help = "of rmsprop, adam and adamw", .low = 0}};
}

std::vector<OptionRow> gradient_rows(OptimizerSpec& o) {
  return {{.name = "--weight-decay", .target = &o.weight_decay, .value = "W", .help = "adamw: w -= lr * W * w; others: W * w is added to the gradient", .low = 0},
          {.name = "--clip-norm", .target = &o.clip_norm, .value = "N", .help = "largest norm of all gradients together", .default_text = "off", .low = 0},
          {.name = "--clip-value", .target = &o.clip_value, .value = "V", .help = "largest magnitude of a gradient's element", .default_text = "off", .low = 0}};
}

Status check_optimizer(const OptimizerSpec& o) {
  const OptimizerSpec plain;
  const bool sgd = o.kind == "sgd", rmsprop = o.kind == "rmsprop", adam = o.kind == "adam" || o.kind == "adamw";
  const bool rho = o.rho != plain.rho, beta1 = o.beta1 != plain.beta1, beta2 = o.beta2 != plain.beta2;
  const struct {
    const char* name;
    bool wrong;
    std::string why;
  } rules[] = {{"--momentum", o.momentum != plain.momentum && !sgd, "belongs to --optimizer sgd, not " + o.kind},
               {"--nesterov", o.nesterov && !sgd, "belongs to --optimizer sgd, not " + o.kind},
               {"--nesterov", o.nesterov && o.momentum == 0, "belongs to --momentum, which is 0"},
               {"--rho", rho && !rmsprop, "belongs to --optimizer rmsprop, not " + o.kind},
               {"--beta1", beta1 && !adam, "belongs to --optimizer adam and adamw, not " + o.kind},
               {"--beta2", beta2 && !adam, "belongs to --optimizer adam and adamw, not " + o.kind},
               {"--epsilon", o.epsilon != plain.epsilon && sgd, "belongs to --optimizer rmsprop, adam and adamw, not sgd"},
               {"--rho", o.rho >= 1, "must be less than 1"},
               {"--beta1", o.beta1 >= 1, "must be less than 1"},
               {"--beta2", o.beta2 >= 1, "must be less than 1"}};
  for (const auto& rule : rules)
    if (rule.wrong) return usage_error(rule.name, " ", rule.why);
  return {};
}

}  // namespace eng::tools

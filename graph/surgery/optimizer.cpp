// See optimizer.h. A new optimiser: its update operator in graph/ops/, a row in kRules.
#include "graph/surgery/optimizer.h"

#include "graph/ops/op.h"

namespace eng {
namespace {

struct Rule {
  const char* kind;
  const char* op;
  std::vector<const char*> slots;  // states a parameter has, in the operator's order
  bool needs_step;
};

Result<Rule> rule_of(const OptimizerSpec& s) {
  if (s.kind == "sgd") return s.momentum == 0 && !s.nesterov ? Rule{"sgd", "SgdUpdate", {}, false} : Rule{"sgd", "MomentumUpdate", {"momentum"}, false};
  if (s.kind == "rmsprop") return Rule{"rmsprop", "RmspropUpdate", {"mean_square"}, false};
  if (s.kind == "adam" || s.kind == "adamw") return Rule{"adam", "AdamUpdate", {"first_moment", "second_moment"}, true};
  return usage_error("--optimizer '", s.kind, "' is not known; known are: sgd, rmsprop, adam, adamw");
}

Attributes attributes_of(const OptimizerSpec& s) {
  Attributes a;
  auto set = [&](const char* name, double v) { a.set(name, static_cast<float>(v)); };
  if (s.kind == "sgd" && (s.momentum != 0 || s.nesterov)) {
    set("momentum", s.momentum);
    a.set("nesterov", int64_t{s.nesterov});
  }
  if (s.kind == "rmsprop") set("rho", s.rho);
  if (s.kind == "adam" || s.kind == "adamw") set("beta1", s.beta1), set("beta2", s.beta2);
  if (s.kind != "sgd") set("epsilon", s.epsilon);
  if (s.weight_decay != 0) set(s.kind == "adamw" ? "weight_decay" : "l2", s.weight_decay);
  if (s.clip_value != 0) set("clip_value", s.clip_value);
  return a;
}

ValueId add_state(Graph& g, const std::string& name, DType type, const Shape& shape) {
  ValueId v = g.add_value(name, type, shape);
  g.value(v).role = Role::kState;
  return v;
}

}  // namespace

Result<ValueId> attach_optimizer(Graph& g, const std::vector<ValueId>& parameters, const std::vector<ValueId>& gradients, const OptimizerSpec& spec) {
  ENG_ASSIGN(Rule rule, rule_of(spec));
  Builder b(g, Phase::kUpdate);
  ValueId rate = g.add_value("learning_rate", DType::kFloat32, {});
  g.value(rate).role = Role::kInput;
  g.inputs.push_back(rate);
  ValueId step = kNoValue, scale = kNoValue;
  if (rule.needs_step) {
    step = add_state(g, kOptimizerStepName, DType::kInt64, {});
    b.set_name_hint("optimizer/next_step");
    g.updates.emplace_back(step, b.op("Add", {step, b.scalar(DType::kInt64, 1)}));
  }
  if (spec.clip_norm > 0) {
    b.set_name_hint("optimizer/gradient_norm");
    Attributes limit;
    limit.set("max_norm", static_cast<float>(spec.clip_norm));
    scale = b.engine_op("ClipScale", {b.engine_op("GlobalNorm", gradients)}, limit);
  }
  const Attributes attributes = attributes_of(spec);
  for (size_t i = 0; i < parameters.size(); ++i) {
    const ValueId w = parameters[i];
    const std::string name = g.value(w).name;
    std::vector<ValueId> inputs{w, gradients[i]}, states{w};
    for (const char* slot : rule.slots) {
      states.push_back(add_state(g, name + "/" + slot, g.value(w).dtype, Shape(g.value(w).shape)));
      inputs.push_back(states.back());
    }
    inputs.push_back(rate);
    if (rule.needs_step) inputs.push_back(step);
    if (scale != kNoValue) inputs.push_back(scale);
    b.set_name_hint(name + "/next");
    const std::vector<ValueId> next = b.ops(kEngineDomain, rule.op, inputs, std::vector<bool>(states.size(), true), attributes);
    for (size_t k = 0; k < states.size(); ++k) g.updates.emplace_back(states[k], next[k]);
  }
  if (!b.status().ok()) return b.status();
  return rate;
}

}  // namespace eng

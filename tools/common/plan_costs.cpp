// See plan_costs.h.
#include "tools/common/plan_costs.h"

#include "engine/plugin/device.h"

namespace eng::tools {
namespace {

// A processor core and a memory of the usual kind; only ratios matter much.
Machine usual_machine(const std::vector<std::string>& devices, int threads) {
  Machine m;
  for (const std::string& name : devices) {
    DeviceSpec d;
    d.name = name;
    d.flops_per_second = name.rfind("cpu", 0) == 0 ? 6e10 * std::max(1, threads) : 2e13;
    d.bytes_per_second = name.rfind("cpu", 0) == 0 ? 1e10 : 1e12;
    m.devices.push_back(d);
  }
  m.connect_all({5e-6, 1e10});
  return m;
}

}  // namespace

Result<PlanCosts> plan_costs(const std::vector<std::string>& devices, int threads, const std::string& how,
                             const std::function<Result<Step>(int64_t rows)>& step_of, const Console& console) {
  (void)how, (void)step_of, (void)console;
  PlanCosts out;
  out.machine = usual_machine(devices, threads);
  out.nodes = roofline_costs(out.machine);
  return out;
}

Result<Plan> given_plan(const std::string& path, const std::vector<std::string>&, const Graph&) { return unsupported(path, ": plan files are not read yet"); }

}  // namespace eng::tools

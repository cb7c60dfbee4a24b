// The catalogue is complete: every operator has inference, a gradient rule or a reason, a CPU kernel and a float64
// reference (that it ran in a test is checked by zz_coverage_test.cpp); docs/operators.md lists it. With ENGINE_OPERATOR_TABLE=FILE set, a whole run of this program writes that
// table with the gradient errors it measured:  ENGINE_OPERATOR_TABLE=docs/operators.md build/bin/test_ops
#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "engine/plugin/device.h"
#include "graph/ops/op.h"
#include "tests/support/op_check.h"
#include "tests/support/reference/reference.h"

using namespace eng;
using namespace eng::test;

namespace {

std::string full_name(const OpDef& op) { return (*op.domain ? std::string(op.domain) + "::" : "") + op.name; }
std::string text(const eb_string& s) { return std::string(s.data, s.length); }

std::string read(const std::filesystem::path& path) {
  std::ifstream in(path);
  std::stringstream out;
  out << in.rdbuf();
  return out.str();
}

std::string source_root() {
  const char* root = std::getenv("ENGINE_SOURCE");
  return root ? root : ".";
}

// Bits of the element types that some kernel of the CPU backend takes; 0 where there is none.
uint64_t kernel_types(const OpDef& op) {
  uint64_t types = 0;
  const eb_backend_table& b = *backends()[0];
  for (uint32_t i = 0; i < b.kernel_count; ++i)
    if (text(b.kernels[i]->op_type) == op.name && text(b.kernels[i]->domain) == op.domain) types |= b.kernels[i]->types;
  return types;
}

std::string type_list(uint64_t types) {
  std::string out;
  for (int t = 1; t < 32; ++t)
    if (types >> t & 1) out += (out.empty() ? "" : " ") + name_of(static_cast<DType>(t));
  return out;
}

struct TableWriter : doctest::IReporter {
  explicit TableWriter(const doctest::ContextOptions&) {}
  void test_run_end(const doctest::TestRunStats& stats) override {
    const char* path = std::getenv("ENGINE_OPERATOR_TABLE");
    if (!path || stats.numTestCasesFailed > 1) return;  // one: the check of the table that is being written
    std::ofstream out(path);
    int forward = 0, backward = 0;
    for (const OpDef* op : all_ops())
      if (std::string(op->domain) != kEngineDomain) ++forward, backward += op->gradient != nullptr;
    out << "# Operators\n\nWritten by the operator tests (tests/ops/catalogue_test.cpp). ONNX's own: " << forward << " operators, " << backward
        << " of them differentiable. `Form` is the opset whose form a node has in memory; older files are raised to it when they are read.\n"
           "`Gradient error` is the largest relative L2 error against central finite differences in float64 over the tested cases.\n\n"
           "| operator | form | element types (CPU) | gradient | gradient error | cases |\n|---|---|---|---|---|---|\n";
    for (const OpDef* op : all_ops()) {
      auto m = measured_gradients().find(full_name(*op));
      out << "| " << full_name(*op) << " | " << op->since << " | " << (op->by_executor ? "any, by the executor" : type_list(kernel_types(*op))) << " | " << (op->gradient ? "yes" : op->no_gradient) << " | ";
      if (m != measured_gradients().end()) {
        std::ostringstream error;
        error.precision(1);
        error << std::scientific << m->second.worst;
        out << error.str() << " | " << m->second.cases;
      } else out << " | ";
      out << " |\n";
    }
  }
  void report_query(const doctest::QueryData&) override {}
  void test_run_start() override {}
  void test_case_start(const doctest::TestCaseData&) override {}
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void test_case_end(const doctest::CurrentTestCaseStats&) override {}
  void test_case_exception(const doctest::TestCaseException&) override {}
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData&) override {}
  void log_message(const doctest::MessageData&) override {}
  void test_case_skipped(const doctest::TestCaseData&) override {}
};
DOCTEST_REGISTER_LISTENER("operator table", 1, TableWriter);

}  // namespace

TEST_CASE("every operator has inference, a gradient rule or a reason, a CPU kernel and a reference") {
  for (const OpDef* op : all_ops()) {
    CHECK_MESSAGE(static_cast<bool>(op->infer), full_name(*op), " has no shape inference");
    CHECK_MESSAGE(static_cast<bool>(op->gradient) != static_cast<bool>(op->no_gradient), full_name(*op), " needs a gradient rule or a reason why there is none");
    if (op->by_executor) continue;  // tests/engine/exec_placed_program_test.cpp
    CHECK_MESSAGE(kernel_types(*op) != 0, full_name(*op), " has no CPU kernel");
    CHECK_MESSAGE(static_cast<bool>(find_reference(op->domain, op->name)), full_name(*op), " has no float64 reference kernel");
    CHECK_MESSAGE(op->since <= kCanonicalOpset, full_name(*op), " claims a form newer than the canonical opset");
  }
}

TEST_CASE("docs/operators.md lists every operator") {
  const std::string table = read(source_root() + "/docs/operators.md");
  for (const OpDef* op : all_ops()) CHECK_MESSAGE(table.find("| " + full_name(*op) + " |") != std::string::npos, full_name(*op), " is missing in docs/operators.md; write it anew (see this file's head)");
}

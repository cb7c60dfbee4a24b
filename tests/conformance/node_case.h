// One of ONNX's test cases: model.onnx and test_data_set_<i>/{input,output}_<j>.pb, laid out by generate.py. Running one imports the
// model, gives its inputs the shapes and (where they must be known before the step) the content of the files, runs every node through a
// device's kernels and compares with the expected outputs, as numpy.testing.assert_allclose does: |got - wanted| <= atol + rtol |wanted|.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/plugin/device.h"

namespace eng::conformance {

struct Case {
  std::string name, folder;
  std::vector<std::string> operators;  // of the file: "Conv", "ai.onnx.ml::Scaler"
  double rtol = 1e-3, atol = 1e-7;
};

enum class Verdict : int { kPassed, kFailed, kSkipped };

struct Outcome {
  Verdict verdict = Verdict::kFailed;
  std::string reason;  // why it failed or was skipped
  int agree = 0, differ = 0;  // values, in compare_shapes
};

// Cases of FOLDER/cases.json. The error names the file.
Result<std::vector<Case>> read_cases(const std::string& folder);

// Skipped: refused with an error, and the model uses an operator that the catalogue does not list (after function bodies were expanded)
// or an element type that the engine does not have. Where such a model runs all the same, its outputs count like any other's.
Outcome run_case(const Case& test, const std::shared_ptr<Device>& device);

// Our inference against ONNX's (onnx::shape_inference, with data propagation) on the same model and input shapes: type and shape of
// every value that both know by name.
Outcome compare_shapes(const Case& test, const std::shared_ptr<Device>& device);

}  // namespace eng::conformance

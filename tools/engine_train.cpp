// engine-train: from an ONNX model and pictures or arrays to a trained ONNX model. See tools/common/train_session.h.
#include "tools/common/train_session.h"

int main(int argc, char** argv) { return eng::tools::run_engine_train({argv + 1, argv + argc}); }

// What LSTM, GRU and RNN have in common: operands, shape checks, activation names, and the nodes of the gradient.
// Each has, beside ONNX's operator, up to two of domain ai.engine:
//   <X>Training: the same with one more output, `reserve`, that keeps what the gradient needs;
//   <X>Grad: gradients of X, W, R, B, the initial states and (LSTM) P from Y and reserve.
// ONNX's own operator is differentiated by running its training form once more; graph/passes/training_form_rnn.h replaces it before,
// so that a training step runs it once.
#pragma once

#include "graph/ops/op.h"

namespace eng {

struct RecurrentKind {
  int64_t gates;            // rows of W and R per hidden unit
  int64_t activations;      // per direction
  int64_t reserve_gates;    // values a unit and step kept in `reserve`; 0: there is none
  bool cell;                // has a cell state and peepholes (LSTM)
};

struct RecurrentSizes {
  int64_t steps = 0, batch = 0, input = 0, hidden = 0, directions = 0;
  bool batch_first = false;
  Shape sequence() const;  // of Y
  Shape state() const;     // of Y_h, initial_h
};

// Checks the operands X, W, R, B, sequence_lens, initial_h (, initial_c, P) that stand at the given positions (-1: none) and the
// attributes direction, hidden_size, activations and layout.
struct RecurrentOperands {
  int x = 0, w = 1, r = 2, b = 3, lens = 4, h0 = 5, c0 = -1, p = -1;
};
Result<RecurrentSizes> check_recurrent(const InferContext& c, const RecurrentKind& kind, const RecurrentOperands& at);

}  // namespace eng

// Recomputation: forward activations that the backward phase reads need not be kept until then; the nodes that make them run again,
// just before their first reader there. Costs time, gives memory, changes no bit.
//
//   StepLine      a step as the line of nodes that one device runs, for any choice of what is kept: lifetimes without building a graph
//   recompute()   the graph for one choice
//
// What is run again reads values that are kept, inputs, weights, or what is run again for it. Copies stand where they are needed in the
// stored order, which schedule.h keeps, so nothing else has to hold them back. A copy that costs next to nothing and is only a stepping stone to
// a costly one (BN, ReLU, Concat between two convolutions) is not held until its own reader comes but made once more then.
// Never run again: what draws random numbers from no counter, and what makes the next content of a state. BatchNormTraining is run again for
// its result alone: running statistics are left out, and the saved statistics are kept. Random dropout draws the same bits: its
// counter advances when its last reader is done.
#pragma once

#include <vector>

#include "graph/ir/graph.h"

namespace eng {

// What becomes of an activation between the forward phase and its readers in the backward phase.
enum Keep : char {
  kAgain = 0,     // made again for its first reader and held for the others
  kKept = 1,      // held all the time
  kEachTime = 2,  // made again for each reader
};

// The step line for one choice.
struct Line {
  // A value's content: the first, or that of a copy.
  struct Version {
    ValueId value = kNoValue;
    int first = 0, last = 0;  // slots during which it is alive
    bool again = false;
  };
  struct Slot {
    NodeId node = kNoNode;
    bool again = false;
    int reads = 0;   // where its entries in Line::reads begin, one per input (kNoVersion: no activation, or not read)
    int makes = 0;   // the same for outputs in Line::makes
  };
  static constexpr int kNoVersion = -1;
  std::vector<Slot> slots;
  std::vector<Version> versions;
  std::vector<int> reads, makes;
};

class StepLine {
 public:
  // Shapes are known. Node ids are those of `step`, which must outlive this and stay as it is.
  static Result<StepLine> of(const Graph& step);

  // Values (by id) that the backward phase reads and that can be made again: what is kept where nothing is recomputed.
  const std::vector<char>& kept_by_all() const { return kept_by_all_; }
  // Values that may be kept or not: those, and what making them again could start from.
  const std::vector<ValueId>& choices() const { return choices_; }
  const std::vector<NodeId>& order() const { return order_; }
  // `kept`: a Keep per value; only choices() count.
  Line unroll(const std::vector<char>& kept) const;

 private:
  class Unroller;
  explicit StepLine(const Graph& step) : graph_(&step) {}
  const Graph* graph_;
  std::vector<NodeId> order_;
  std::vector<char> forward_;      // per node: runs before the backward phase
  std::vector<char> cheap_;        // per node: time goes into bytes, not into arithmetic
  std::vector<char> can_choose_;   // per value
  std::vector<char> kept_by_all_;
  std::vector<ValueId> choices_;
};

// Rewrites a training step so that of the activations that can be made again only those are held that `kept` (a Keep by value id) says.
// Value ids stay, node ids change; copies are in phase kBackward, their forward node is what they repeat, and they are named "<name>/again",
// "<name>/again_1", ... Returns the number of copies; a graph without backward phase is left as it is.
Result<int> recompute(Graph& step, const std::vector<char>& kept);

}  // namespace eng

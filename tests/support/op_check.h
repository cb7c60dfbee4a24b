// Checks of one operator against independent oracles. A case is an operator with input shapes, ranges and attributes;
// check_op() runs all that apply:
//   forward     the CPU backend in float32, row-major and channels-last, against the float64 reference kernel;
//   gradient    autodiff's graph, evaluated in float64 by the reference kernels, against central finite differences (<= 1e-5);
//   backward    the same gradient graph on the CPU backend in float32 against float64.
// Failures are doctest failures that name the case. Tolerances: rtol * max(1, |wanted|max) elementwise; float32's rounding
// (6e-8) times the length of a typical sum here (<= 100 terms) gives the default 2e-5.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "engine/plugin/device.h"
#include "graph/ir/graph.h"

namespace eng::test {

struct OpInput {
  Shape shape;
  DType dtype = DType::kFloat32;   // floating inputs become float64 in the gradient check
  double low = -1, high = 1;       // random uniform in this range (integers: inclusive)
  std::vector<double> values;      // given content instead of random
  bool constant = false;           // known when compiled (Slot::kHost inputs; always set for them)
  bool absent = false;
  bool keep_type = false;          // stays float32 in the float64 evaluation too (a learning rate)
  bool differentiate = true;       // include in the gradient check (floating, not constant)
};

struct OpCase {
  std::string op;
  std::vector<OpInput> inputs;
  Attributes attributes;
  std::vector<bool> outputs{true};   // which outputs are wanted
  std::string domain;
  uint64_t seed = 1;
  double rtol = 2e-5;
  std::vector<bool> differentiate_outputs;  // outputs whose gradient is fed; empty: all floating ones
};

// Helpers to write cases.
OpInput real(Shape shape, double low = -1, double high = 1);
OpInput ints(const std::vector<int64_t>& values);               // constant int64, rank 1
OpInput given(Shape shape, std::vector<double> values, DType dtype = DType::kFloat32);
OpInput absent();
Attributes attrs(std::initializer_list<std::pair<const char*, Attribute>> list);

void check_op(const OpCase& c);
void check_forward(const OpCase& c);
void check_gradient(const OpCase& c, double tolerance = 1e-5);
void check_backward(const OpCase& c);
// The largest relative L2 error over inputs of autodiff against finite differences; what check_gradient bounds.
double gradient_error(const OpCase& c);
// The largest error that check_gradient saw so far in this process, by "domain::op" (ONNX's own without domain), and cases seen.
struct MeasuredGradient {
  double worst = 0;
  int cases = 0;
};
const std::map<std::string, MeasuredGradient>& measured_gradients();
// Names ("domain::op") of the nodes that ran on the CPU backend through this file's functions so far, gradient nodes included.
const std::set<std::string>& exercised_ops();
// Outputs of the CPU backend for the case (row-major), for tests with literal expected values.
std::vector<Tensor> run_on_cpu(const OpCase& c);
// d sum(y * weights) / d input i on the CPU backend; weights: per element of output 0.
Tensor gradient_on_cpu(const OpCase& c, int input, const std::vector<double>& weights);

std::shared_ptr<Device> cpu_device();  // one, shared, with two threads

// A small generator for random shapes and attributes in tests: the same numbers on every machine.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15ull + 1) {}
  uint64_t next();
  int64_t between(int64_t low, int64_t high);  // inclusive
  double uniform(double low, double high);
  template <class T> const T& pick(const std::vector<T>& list) { return list[static_cast<size_t>(between(0, static_cast<int64_t>(list.size()) - 1))]; }

 private:
  uint64_t state_;
};

}  // namespace eng::test

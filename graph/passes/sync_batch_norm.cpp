// See sync_batch_norm.h.
#include "graph/passes/sync_batch_norm.h"

#include "graph/ops/op.h"

namespace eng {
namespace {

Attributes keep_dims() {
  Attributes a;
  a.set("keepdims", int64_t{1});
  return a;
}

void replace(Graph& g, NodeId id, ValueId share) {
  const Node n = g.node(id);
  const ValueId x = n.inputs[0];
  const Shape shape = g.value(x).shape;
  const DType type = g.value(x).dtype;
  const int64_t channels = shape.size() > 1 ? shape[1] : 1;
  Builder b(g);
  b.set_name_hint(g.value(n.outputs[0]).name + "/sync");
  std::vector<int64_t> axes, one_a_channel(shape.size(), 1);
  for (int64_t a = 0; a < static_cast<int64_t>(shape.size()); ++a)
    if (a != 1) axes.push_back(a);
  if (shape.size() > 1) one_a_channel[1] = channels;
  const ValueId over = b.ints(axes), channel_shape = b.ints(one_a_channel), flat = b.ints({channels});
  Attributes to;
  to.set("to", static_cast<int64_t>(type));
  const ValueId part = g.value(share).dtype == type ? share : b.op("Cast", {share}, to);
  const auto all_shards = [&](ValueId v) { return b.engine_op("ShardSum", {b.op("Mul", {b.op("ReduceMean", {v, over}, keep_dims()), part})}); };
  const ValueId mean = all_shards(x);
  const ValueId centred = b.op("Sub", {x, mean});
  const ValueId variance = all_shards(b.op("Mul", {centred, centred}));
  const ValueId deviation = b.op("Sqrt", {b.op("Add", {variance, b.scalar(type, static_cast<double>(n.attributes.get_float("epsilon", 1e-5F)))})});
  const ValueId factor = b.op("Div", {b.op("Reshape", {n.inputs[1], channel_shape}), deviation});
  ValueId y = b.op("Add", {b.op("Mul", {centred, factor}), b.op("Reshape", {n.inputs[2], channel_shape})});
  if (n.attributes.get_string("activation", "") == "Relu") y = b.op("Relu", {y});
  const auto momentum = static_cast<double>(n.attributes.get_float("momentum", 0.9F));
  const auto running = [&](ValueId old, ValueId now) {
    return b.op("Add", {b.op("Mul", {old, b.scalar(type, momentum)}), b.op("Mul", {b.op("Reshape", {now, flat}), b.scalar(type, 1 - momentum)})});
  };
  const ValueId fresh[] = {y, n.outputs.size() > 1 && n.outputs[1] != kNoValue ? running(n.inputs[3], mean) : kNoValue,
                           n.outputs.size() > 2 && n.outputs[2] != kNoValue ? running(n.inputs[4], variance) : kNoValue};
  g.remove_node(id);
  for (size_t i = 0; i < 3; ++i)
    if (fresh[i] != kNoValue) g.replace_uses(n.outputs[i], fresh[i]);
}

}  // namespace

Result<int> sync_batch_norm(Graph& g, ValueId share) {
  int replaced = 0;
  for (NodeId n : g.live_nodes()) {
    if (g.node(n).domain != kEngineDomain || g.node(n).op_type != "BatchNormTraining") continue;
    replace(g, n, share);
    ++replaced;
  }
  ENG_TRY(g.compact());
  return replaced;
}

}  // namespace eng

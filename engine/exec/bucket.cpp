// See bucket.h.
#include "engine/exec/bucket.h"

#include "graph/ops/op.h"

namespace eng {

std::vector<Bucket> make_buckets(const std::vector<BucketResult>& results, const std::vector<size_t>& order, uint64_t limit) {
  constexpr uint64_t kAlignment = 64;
  std::vector<Bucket> out;
  const auto open = [&](const BucketResult& r) -> Bucket& {
    for (auto it = out.rbegin(); it != out.rend(); ++it)
      if (it->dtype == r.dtype && it->place == r.place) {
        if (it->bytes < limit) return *it;
        break;
      }
    out.push_back({r.dtype, r.place, 0, {}});
    return out.back();
  };
  for (size_t i : order) {
    Bucket& b = open(results[i]);
    const uint64_t bytes = static_cast<uint64_t>(element_count(results[i].shape)) * size_of(results[i].dtype);
    b.items.push_back({i, b.bytes, bytes});
    b.bytes = (b.bytes + bytes + kAlignment - 1) / kAlignment * kAlignment;
  }
  return out;
}

Result<std::unique_ptr<BucketAdder>> BucketAdder::create(const std::shared_ptr<Device>& device, const Bucket& bucket) {
  Graph g;
  const Shape shape{static_cast<int64_t>(bucket.bytes / size_of(bucket.dtype))};
  const ValueId to = g.add_value("to", bucket.dtype, shape), from = g.add_value("from", bucket.dtype, shape);
  Builder b(g);
  const ValueId sum = b.op("Add", {to, from});
  if (!b.status().ok()) return b.status();
  ENG_ASSIGN(DeviceKernel kernel, DeviceKernel::create(device, g, g.node(g.value(sum).producer)));
  bool in_place = false;
  for (const eb_alias& a : kernel.aliases()) in_place |= a.kind == EB_ALIAS_IN_PLACE && a.output == 0 && a.input == 0;
  if (!in_place) return unsupported(device->name(), " cannot add ", name_of(bucket.dtype), " in place (kernel '", kernel.implementation(), "'), which sums over shards need");
  DeviceBuffer workspace;
  if (kernel.workspace() > 0) {
    ENG_ASSIGN(workspace, DeviceBuffer::allocate(device, kernel.workspace()));
  }
  return std::unique_ptr<BucketAdder>(new BucketAdder(std::move(kernel), std::move(workspace)));
}

}  // namespace eng

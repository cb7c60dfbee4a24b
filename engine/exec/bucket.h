// Buckets: results of a shard program that are summed over shards lie together in a few blocks, so that one addition or message serves many.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/plugin/device.h"
#include "graph/ir/graph.h"

namespace eng {

struct BucketItem {
  size_t result;      // number among the results
  uint64_t offset;    // bytes in the bucket
  uint64_t bytes;
};

struct Bucket {
  DType dtype = DType::kFloat32;
  int32_t place = 0;
  uint64_t bytes = 0;             // a multiple of the element size; gaps between items stay zero
  std::vector<BucketItem> items;
};

struct BucketResult {
  DType dtype;
  Shape shape;
  int32_t place;
};

// Results in the order in which they are made; a bucket is closed when it has `limit` bytes.
std::vector<Bucket> make_buckets(const std::vector<BucketResult>& results, const std::vector<size_t>& order, uint64_t limit);

// to += from, for a bucket's bytes, on the stream of `device`. Two of them never run at once on one handle.
class BucketAdder {
 public:
  static Result<std::unique_ptr<BucketAdder>> create(const std::shared_ptr<Device>& device, const Bucket& bucket);
  Status run(void* to, const void* from) {
    const void* inputs[] = {to, from};
    void* outputs[] = {to};
    return kernel_.run(inputs, outputs, workspace_.data());
  }

 private:
  BucketAdder(DeviceKernel kernel, DeviceBuffer workspace) : kernel_(std::move(kernel)), workspace_(std::move(workspace)) {}
  DeviceKernel kernel_;
  DeviceBuffer workspace_;
};

}  // namespace eng

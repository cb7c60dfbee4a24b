// query("collectives", 1): NCCL behind the ABI's table.
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "backends/cuda/device.h"
#include "backends/cuda/error.h"

struct eb_communicator {
  int32_t device = 0;
  ncclComm_t comm = nullptr;
};

namespace eng::cuda {
namespace {

static_assert(sizeof(ncclUniqueId) == EB_UNIQUE_ID_BYTES);

ncclDataType_t type_of(int32_t dtype) {
  switch (dtype) {
    case EB_FLOAT32: return ncclFloat32;
    case EB_FLOAT64: return ncclFloat64;
    case EB_FLOAT16: return ncclFloat16;
    case EB_BFLOAT16: return ncclBfloat16;
    case EB_INT8: return ncclInt8;
    case EB_UINT8: return ncclUint8;
    case EB_INT32: return ncclInt32;
    case EB_UINT32: return ncclUint32;
    case EB_INT64: return ncclInt64;
    case EB_UINT64: return ncclUint64;
    default: throw Failure(EB_UNSUPPORTED, "element type " + std::to_string(dtype) + " has no collectives");
  }
}
ncclRedOp_t reduction_of(int32_t reduction) {
  switch (reduction) {
    case EB_REDUCE_SUM: return ncclSum;
    case EB_REDUCE_MAX: return ncclMax;
    case EB_REDUCE_MIN: return ncclMin;
    default: throw Failure(EB_INVALID_ARGUMENT, "reduction " + std::to_string(reduction) + " is not known");
  }
}

int32_t unique_id(eb_unique_id* id, eb_error* error) {
  return guard(error, [&] {
    ncclUniqueId made;
    check(nccl().ncclGetUniqueId(&made), "making an id");
    std::memcpy(id->bytes, &made, sizeof made);
  });
}

int32_t init_all(eb_device* const* devices, int32_t count, eb_communicator** communicators, eb_error* error) {
  return guard(error, [&] {
    std::vector<int> indices;
    for (int32_t i = 0; i < count; ++i) indices.push_back(devices[i]->index);
    std::vector<ncclComm_t> comms(indices.size(), nullptr);
    check(nccl().ncclCommInitAll(comms.data(), count, indices.data()), "making communicators");
    for (int32_t i = 0; i < count; ++i) communicators[i] = new eb_communicator{indices[static_cast<size_t>(i)], comms[static_cast<size_t>(i)]};
  });
}

int32_t init_rank(eb_device* device, const eb_unique_id* id, int32_t count, int32_t rank, eb_communicator** communicator, eb_error* error) {
  return guard(error, [&] {
    const DeviceScope scope(device);
    ncclUniqueId given;
    std::memcpy(&given, id->bytes, sizeof given);
    auto c = std::make_unique<eb_communicator>();
    c->device = device->index;
    // In a group the handle is written when the group ends: the communicator must be in its place before.
    *communicator = c.get();
    const ncclResult_t result = nccl().ncclCommInitRank(&c->comm, count, given, rank);
    if (result != ncclSuccess && result != ncclInProgress) *communicator = nullptr;
    check(result, "joining a communicator");
    (void)c.release();
  });
}

void destroy(eb_communicator* communicator) {
  (void)guard(nullptr, [&] {
    const DeviceScope scope(communicator->device);
    if (communicator->comm) (void)nccl().ncclCommDestroy(communicator->comm);
  });
  delete communicator;
}

template <class F>
int32_t enqueue(eb_communicator* c, eb_error* error, const char* what, F&& f) {
  return guard(error, [&] {
    if (!c->comm) throw Failure(EB_INVALID_ARGUMENT, "the communicator was aborted");
    const DeviceScope scope(c->device);
    check(f(), what);
  });
}

int32_t all_reduce(eb_communicator* c, eb_stream* s, const void* from, void* to, uint64_t count, int32_t dtype, int32_t reduction, eb_error* error) {
  return enqueue(c, error, "all-reduce", [&] { return nccl().ncclAllReduce(from, to, count, type_of(dtype), reduction_of(reduction), c->comm, s->stream); });
}
int32_t reduce_scatter(eb_communicator* c, eb_stream* s, const void* from, void* to, uint64_t count, int32_t dtype, int32_t reduction, eb_error* error) {
  return enqueue(c, error, "reduce-scatter", [&] { return nccl().ncclReduceScatter(from, to, count, type_of(dtype), reduction_of(reduction), c->comm, s->stream); });
}
int32_t all_gather(eb_communicator* c, eb_stream* s, const void* from, void* to, uint64_t count, int32_t dtype, eb_error* error) {
  return enqueue(c, error, "all-gather", [&] { return nccl().ncclAllGather(from, to, count, type_of(dtype), c->comm, s->stream); });
}
int32_t broadcast(eb_communicator* c, eb_stream* s, const void* from, void* to, uint64_t count, int32_t dtype, int32_t root, eb_error* error) {
  return enqueue(c, error, "broadcast", [&] { return nccl().ncclBroadcast(from, to, count, type_of(dtype), root, c->comm, s->stream); });
}

int32_t group_begin(eb_error* error) { return guard(error, [&] { check(nccl().ncclGroupStart(), "beginning a group"); }); }
int32_t group_end(eb_error* error) { return guard(error, [&] { check(nccl().ncclGroupEnd(), "ending a group"); }); }

int32_t abort(eb_communicator* c, eb_error* error) {
  return guard(error, [&] {
    if (!c->comm) return;
    const DeviceScope scope(c->device);
    const ncclComm_t comm = c->comm;
    c->comm = nullptr;  // NCCL frees it
    check(nccl().ncclCommAbort(comm), "aborting");
  });
}

int32_t async_error(eb_communicator* c, eb_error* error) {
  return guard(error, [&] {
    if (!c->comm) throw Failure(EB_INVALID_ARGUMENT, "the communicator was aborted");
    ncclResult_t state = ncclSuccess;
    check(nccl().ncclCommGetAsyncError(c->comm, &state), "asking for errors");
    check(state, "enqueued collectives");
  });
}

}  // namespace

const eb_collectives_table kCollectives = {sizeof(eb_collectives_table), 1, unique_id, init_all, init_rank, destroy, all_reduce, reduce_scatter, all_gather,
                                           broadcast, group_begin, group_end, abort, async_error};

}  // namespace eng::cuda

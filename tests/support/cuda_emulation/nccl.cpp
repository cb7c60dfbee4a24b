// NCCL: communicators and collectives. A collective runs when the calls of all ranks have reached the front of their streams; what a rank gives is copied at
// that moment. Sums are rounded to the element type at every step, in an order that depends on the place, as a ring's.
#include <nccl.h>
#include <unistd.h>

#include <algorithm>

#include "tests/support/cuda_emulation/library.h"
#include "tests/support/cuda_emulation/nccl_board.h"

struct ncclComm : eng_emulation::Object {
  int rank = 0, count = 1;
  std::shared_ptr<eng_emulation::Board> board;
  uint64_t calls = 0;
  std::shared_ptr<eng_emulation::Mark> last;  // operations of one communicator run in order
  ncclResult_t state = ncclSuccess;
  bool aborted = false;
};

namespace eng_emulation {

namespace {

struct PendingCall {
  ncclComm* comm;
  CUstream_st* stream;
  Operation operation;
};
struct PendingInit {
  ncclComm_t* comm;
  int count, rank, device;
  std::string name;
};
struct Group {
  int depth = 0;
  bool wrong = false;
  std::vector<PendingCall> calls;
  std::vector<PendingInit> inits;
};
thread_local Group group;
void spoil_group() { group.wrong = group.depth > 0; }

bool type_of(ncclDataType_t from, Type& to) {
  switch (from) {
    case ncclInt8: return to = Type::kInt8, true;
    case ncclUint8: return to = Type::kUint8, true;
    case ncclInt32: return to = Type::kInt32, true;
    case ncclUint32: return to = Type::kUint32, true;
    case ncclInt64: return to = Type::kInt64, true;
    case ncclUint64: return to = Type::kUint64, true;
    case ncclFloat16: return to = Type::kHalf, true;
    case ncclFloat32: return to = Type::kFloat, true;
    case ncclFloat64: return to = Type::kDouble, true;
    case ncclBfloat16: return to = Type::kBfloat16, true;
    default: return false;
  }
}

double reduce(ncclRedOp_t op, double a, double b) {
  switch (op) {
    case ncclProd: return a * b;
    case ncclMax: return std::max(a, b);
    case ncclMin: return std::min(a, b);
    default: return a + b;
  }
}

// Elements [from, from + count) of the reduction over all contributions.
void reduce_all(const std::vector<std::shared_ptr<const Contribution>>& parts, Type type, ncclRedOp_t op, size_t from, size_t count, char* to) {
  const size_t size = size_of(type), ranks = parts.size();
  for (size_t i = from; i < from + count; ++i) {
    const size_t first = i / 64 % ranks;
    char* out = to + (i - from) * size;
    std::memcpy(out, parts[first]->bytes.data() + i * size, size);
    for (size_t r = 1; r < ranks; ++r) put(type, out, reduce(op, get(type, out), get(type, parts[(first + r) % ranks]->bytes.data() + i * size)));
    if (op == ncclAvg) put(type, out, get(type, out) / static_cast<double>(ranks));
  }
}

enum class Kind { kAllReduce, kReduceScatter, kAllGather, kBroadcast, kReduce };
struct Collective {
  Kind kind;
  const char* name;
  const void* from;
  void* to;
  size_t count;
  Type type;
  ncclRedOp_t op;
  int root;
};

size_t bytes_in(const Collective& c, const ncclComm& comm) {
  if (c.kind == Kind::kBroadcast && comm.rank != c.root) return 0;
  return c.count * size_of(c.type) * (c.kind == Kind::kReduceScatter ? static_cast<size_t>(comm.count) : 1);
}
size_t bytes_out(const Collective& c, const ncclComm& comm) {
  if (c.kind == Kind::kReduce && comm.rank != c.root) return 0;
  return c.count * size_of(c.type) * (c.kind == Kind::kAllGather ? static_cast<size_t>(comm.count) : 1);
}

void check_poison(const Collective& c, const char* data, size_t bytes, const std::string& what) {
  const size_t size = size_of(c.type);
  for (size_t i = 0; i + size <= bytes; i += size)
    if (is_poison(c.type, data + i)) return report_locked(what + ": reads memory that was never written");
}

// Runs with all contributions there.
void finish(const Collective& c, ncclComm* comm, uint64_t number, const std::string& what) {
  std::unique_lock<std::mutex> lock(world().mutex);
  if (comm->aborted) return;
  const auto parts = comm->board->all(number);
  comm->board->finished(number, comm->rank);
  for (const auto& part : parts)
    if (part->signature != parts[0]->signature) {
      if (comm->state == ncclSuccess) report_locked(what + ": the ranks do not make the same call: " + parts[0]->signature + " and " + part->signature);
      comm->state = ncclInvalidUsage;
      return;
    }
  lock.unlock();
  const size_t bytes = bytes_out(c, *comm);
  if (bytes == 0) return;
  auto* to = static_cast<char*>(reach(comm->device, c.to, bytes, what.c_str()));
  switch (c.kind) {
    case Kind::kAllReduce: case Kind::kReduce: reduce_all(parts, c.type, c.op, 0, c.count, to); break;
    case Kind::kReduceScatter: reduce_all(parts, c.type, c.op, c.count * static_cast<size_t>(comm->rank), c.count, to); break;
    case Kind::kAllGather:
      for (size_t r = 0; r < parts.size(); ++r) std::copy(parts[r]->bytes.begin(), parts[r]->bytes.end(), to + r * c.count * size_of(c.type));
      break;
    case Kind::kBroadcast: std::copy(parts[static_cast<size_t>(c.root)]->bytes.begin(), parts[static_cast<size_t>(c.root)]->bytes.end(), to); break;
  }
}

Operation operation_of(const Collective& c, ncclComm* comm) {
  Operation op;
  const uint64_t number = comm->calls++;
  const std::string what = std::string(c.name) + ", rank " + std::to_string(comm->rank);
  op.what = what;
  if (const size_t bytes = bytes_in(c, *comm)) op.spans.push_back({c.from, bytes, false});
  if (const size_t bytes = bytes_out(c, *comm)) op.spans.push_back({c.to, bytes, true});
  auto posted = std::make_shared<bool>(false), bad = std::make_shared<bool>(false);
  op.ready = [=] {
    if (comm->aborted || *bad) return true;
    if (!*posted) {
      const size_t bytes = bytes_in(c, *comm);
      Contribution mine{std::string(c.name) + " of " + std::to_string(c.count) + " " + name_of(c.type) + ", reduction " + std::to_string(c.op) + ", root " + std::to_string(c.root), {}};
      if (bytes > 0) {
        if (!check_range_locked(comm->device, c.from, bytes, what)) return *bad = true;
        const auto* data = static_cast<const char*>(c.from) + kTwin;
        check_poison(c, data, bytes, what);
        mine.bytes.assign(data, data + bytes);
      }
      comm->board->post(number, comm->rank, std::move(mine));
      *posted = true;
    }
    return comm->board->complete(number);
  };
  op.run = [=] {
    if (*bad) throw OperationFailed{};
    finish(c, comm, number, what);
  };
  return op;
}

ncclResult_t enqueue_call(PendingCall& call) {
  if (call.comm->last) call.operation.after.push_back(call.comm->last);
  call.comm->last = call.operation.done;
  enqueue_locked(call.stream, std::move(call.operation));
  return ncclSuccess;
}

ncclResult_t collective(const Collective& given, ncclDataType_t data, ncclComm_t comm_given, cudaStream_t stream) {
  std::lock_guard<std::mutex> lock(world().mutex);
  Collective c = given;
  auto* comm = find_locked<ncclComm>(comm_given, c.name);
  const auto refuse = [&](const std::string& text, ncclResult_t result) { return report_locked(std::string(c.name) + ": " + text), spoil_group(), result; };
  if (!comm) return spoil_group(), ncclInvalidArgument;
  if (comm->aborted) return refuse("the communicator was aborted", ncclInvalidUsage);
  if (comm->state != ncclSuccess) return comm->state;
  if (!type_of(data, c.type)) return refuse("unknown element type", ncclInvalidArgument);
  if (c.op < ncclSum || c.op > ncclAvg) return refuse("unknown reduction", ncclInvalidArgument);
  if (c.root < 0 || c.root >= comm->count) return refuse("the root is no rank", ncclInvalidArgument);
  CUstream_st* s = stream_locked(stream, c.name);
  if (!s) return spoil_group(), ncclInvalidArgument;
  if (s->device != comm->device) return refuse("the stream is device " + std::to_string(s->device) + "'s, the communicator is device " + std::to_string(comm->device) + "'s", ncclInvalidUsage);
  if (world().devices[static_cast<size_t>(comm->device)]->lost != cudaSuccess) return ncclUnhandledCudaError;
  if (group.depth == 0 && comm->count > 1 && !comm->board->alone_in_thread(comm->calls, comm->rank))
    report_locked(std::string(c.name) + ": one thread calls for several ranks outside of ncclGroupStart and ncclGroupEnd, which may never end");
  PendingCall call{comm, s, operation_of(c, comm)};
  if (group.depth == 0) return enqueue_call(call);
  group.calls.push_back(std::move(call));
  return ncclSuccess;
}

// ---- communicators ----

std::map<std::string, std::weak_ptr<Board>>& boards() {
  static auto* all = new std::map<std::string, std::weak_ptr<Board>>;
  return *all;
}

ncclComm* make_comm_locked(int device, int rank, int count, std::shared_ptr<Board> board) {
  auto* comm = make_object_locked<ncclComm>("communicator", device);
  comm->rank = rank;
  comm->count = count;
  comm->board = std::move(board);
  comm->board->join(rank);
  return comm;
}

// Writes that the rank has come.
ncclResult_t announce(const PendingInit& init) {
  const std::string note = std::to_string(getpid()) + " " + std::to_string(init.device) + " " + std::to_string(init.count);
  if (init.rank < 0 || init.rank >= init.count || !leave_note(board_folder(init.name), "join." + std::to_string(init.rank), note)) {
    report("ncclCommInitRank: rank " + std::to_string(init.rank) + " of " + std::to_string(init.count) + " is out of range or taken");
    return ncclInvalidArgument;
  }
  return ncclSuccess;
}

// Waits for the others, then makes the communicator.
ncclResult_t meet(const PendingInit& init) {
  const std::string folder = board_folder(init.name);
  const double begun = now_ms();
  bool one_process = true;
  std::set<std::string> places;
  for (int rank = 0; rank < init.count; ++rank) {
    std::string note;
    while ((note = read_note(folder, "join." + std::to_string(rank))).empty()) {
      if (now_ms() - begun > 1000.0 * world().settings.hang_seconds) {
        report("ncclCommInitRank: rank " + std::to_string(rank) + " did not come");
        return ncclSystemError;
      }
      usleep(1000);
    }
    const std::string pid = note.substr(0, note.find(' '));
    one_process = one_process && pid == std::to_string(getpid());
    if (note.substr(note.rfind(' ') + 1) != std::to_string(init.count) || !places.insert(note).second) {
      report("ncclCommInitRank: the ranks differ in their number, or two of them are on one device");
      return ncclInvalidUsage;
    }
  }
  std::lock_guard<std::mutex> lock(world().mutex);
  std::shared_ptr<Board> board = boards()[init.name].lock();
  if (!board) boards()[init.name] = board = std::make_shared<Board>(init.count, one_process ? "" : folder);
  *init.comm = make_comm_locked(init.device, init.rank, init.count, board);
  return ncclSuccess;
}

}  // namespace

}  // namespace eng_emulation

using namespace eng_emulation;

ncclResult_t ncclGetVersion(int* version) { return *version = NCCL_VERSION_CODE, ncclSuccess; }

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess: return "no error";
    case ncclUnhandledCudaError: return "unhandled cuda error";
    case ncclSystemError: return "unhandled system error";
    case ncclInvalidArgument: return "invalid argument";
    case ncclInvalidUsage: return "invalid usage";
    case ncclRemoteError: return "remote process exited or there was a network error";
    case ncclInProgress: return "NCCL operation in progress";
    default: return "internal error";
  }
}

const char* ncclGetLastError(ncclComm_t) { return ""; }

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  *id = {};
  const std::string name = new_board_name();
  std::copy_n(name.begin(), std::min(name.size(), sizeof id->internal - 1), id->internal);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int count, ncclUniqueId id, int rank) {
  {
    std::lock_guard<std::mutex> lock(world().mutex);
    if (world().devices.empty()) return ncclUnhandledCudaError;
  }
  const PendingInit init{comm, count, rank, current_device(), std::string(id.internal, strnlen(id.internal, sizeof id.internal))};
  if (group.depth > 0) return group.inits.push_back(init), ncclSuccess;
  const ncclResult_t result = announce(init);
  return result == ncclSuccess ? meet(init) : result;
}

ncclResult_t ncclCommInitAll(ncclComm_t* comms, int count, const int* devices) {
  std::lock_guard<std::mutex> lock(world().mutex);
  if (count < 1 || !comms) return ncclInvalidArgument;
  std::set<int> used;
  for (int i = 0; i < count; ++i) {
    const int device = devices ? devices[i] : i;
    if (device < 0 || device >= static_cast<int>(world().devices.size()) || !used.insert(device).second) {
      report_locked("ncclCommInitAll: device " + std::to_string(device) + " is not there or named twice");
      return ncclInvalidUsage;
    }
  }
  auto board = std::make_shared<Board>(count, "");
  for (int i = 0; i < count; ++i) comms[i] = make_comm_locked(devices ? devices[i] : i, i, count, board);
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  std::unique_lock<std::mutex> lock(world().mutex);
  auto* found = find_locked<ncclComm>(comm, "ncclCommFinalize");
  if (!found) return ncclInvalidArgument;
  if (found->last) wait_for(lock, found->last);
  return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  std::unique_lock<std::mutex> lock(world().mutex);
  auto* found = find_locked<ncclComm>(comm, "ncclCommDestroy");
  if (!found) return ncclInvalidArgument;
  if (found->last) wait_for(lock, found->last);
  found->board->leave(found->rank);
  found->alive = false;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  std::lock_guard<std::mutex> lock(world().mutex);
  auto* found = find_locked<ncclComm>(comm, "ncclCommAbort");
  if (!found) return ncclInvalidArgument;
  found->aborted = true;  // what is enqueued ends without result
  found->board->leave(found->rank);
  found->alive = false;
  world().wake.notify_one();
  return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state) {
  std::lock_guard<std::mutex> lock(world().mutex);
  auto* found = find_locked<ncclComm>(comm, "ncclCommGetAsyncError");
  if (!found) return ncclInvalidArgument;
  const bool lost = world().devices[static_cast<size_t>(found->device)]->lost != cudaSuccess;
  *state = found->state == ncclSuccess && lost ? ncclUnhandledCudaError : found->state;
  return ncclSuccess;
}

ncclResult_t ncclCommCount(const ncclComm_t comm, int* count) { return *count = comm->count, ncclSuccess; }
ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int* device) { return *device = comm->device, ncclSuccess; }
ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank) { return *rank = comm->rank, ncclSuccess; }

ncclResult_t ncclGroupStart() { return ++group.depth, ncclSuccess; }

ncclResult_t ncclGroupEnd() {
  if (group.depth == 0) {
    report("ncclGroupEnd: there was no ncclGroupStart");
    return ncclInvalidUsage;
  }
  if (--group.depth > 0) return ncclSuccess;
  Group whole = std::move(group);
  group = {};
  if (whole.wrong) return ncclInvalidUsage;  // nothing of the group happens
  for (const PendingInit& init : whole.inits)
    if (const ncclResult_t result = announce(init); result != ncclSuccess) return result;
  for (const PendingInit& init : whole.inits)
    if (const ncclResult_t result = meet(init); result != ncclSuccess) return result;
  std::lock_guard<std::mutex> lock(world().mutex);
  for (PendingCall& call : whole.calls)
    if (const ncclResult_t result = enqueue_call(call); result != ncclSuccess) return result;
  return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void* from, void* to, size_t count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return collective({Kind::kAllReduce, "ncclAllReduce", from, to, count, Type::kFloat, op, 0}, type, comm, stream);
}
ncclResult_t ncclReduce(const void* from, void* to, size_t count, ncclDataType_t type, ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream) {
  return collective({Kind::kReduce, "ncclReduce", from, to, count, Type::kFloat, op, root}, type, comm, stream);
}
ncclResult_t ncclReduceScatter(const void* from, void* to, size_t count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return collective({Kind::kReduceScatter, "ncclReduceScatter", from, to, count, Type::kFloat, op, 0}, type, comm, stream);
}
ncclResult_t ncclAllGather(const void* from, void* to, size_t count, ncclDataType_t type, ncclComm_t comm, cudaStream_t stream) {
  return collective({Kind::kAllGather, "ncclAllGather", from, to, count, Type::kFloat, ncclSum, 0}, type, comm, stream);
}
ncclResult_t ncclBroadcast(const void* from, void* to, size_t count, ncclDataType_t type, int root, ncclComm_t comm, cudaStream_t stream) {
  return collective({Kind::kBroadcast, "ncclBroadcast", from, to, count, Type::kFloat, ncclSum, root}, type, comm, stream);
}
ncclResult_t ncclBcast(void* buffer, size_t count, ncclDataType_t type, int root, ncclComm_t comm, cudaStream_t stream) {
  return ncclBroadcast(buffer, buffer, count, type, root, comm, stream);
}

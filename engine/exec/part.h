// What one place (a device's stream) does of a compiled graph: kernels in order, the memory they share, pointers. A Program has one
// part a place and tells them when to run what (program.cpp).
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "engine/exec/program.h"
#include "engine/exec/shared_arena.h"
#include "engine/exec/storage.h"
#include "engine/plugin/device.h"

namespace eng {

struct PartStep {
  NodeId node = kNoNode;
  std::optional<DeviceKernel> kernel;  // none for nodes of the executor (Send, Recv, ShardSum)
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
  void* workspace = nullptr;
  Status run() { return kernel->run(inputs.data(), outputs.data(), workspace); }
};

class ProgramPart {
 public:
  struct Copy {
    void* to;
    const void* from;
    uint64_t bytes;
  };

  // `arena`: null for a block of the part's own.
  ProgramPart(const Graph& graph, std::shared_ptr<Device> device, std::shared_ptr<StateStore> store, std::shared_ptr<SharedArena> arena);
  ~ProgramPart();
  ProgramPart(const ProgramPart&) = delete;
  ProgramPart& operator=(const ProgramPart&) = delete;

  // `order`: this part's nodes. `views`: Recv nodes that read the sender's memory instead of copying.
  Status create_kernels(const std::vector<NodeId>& order);
  Status plan_memory(const StorageRequest& request, const std::vector<NodeId>& views);
  void connect();  // after all external memory that is known by now has been set
  // Told when a value's memory has another address than before; other parts may read it by its pointer.
  void on_move(std::function<void()> moved) { moved_ = std::move(moved); }

  const std::shared_ptr<Device>& device() const { return device_; }
  void* pointer(ValueId v) const;
  int storage_of(ValueId v) const { return storage_.of[static_cast<size_t>(v)]; }
  bool writes_in_place(size_t step, ValueId state) const;  // whether the step's node puts the state's next content over the old
  void set_external(ValueId v, void* memory);              // before connect() or after; patches the steps that use it
  std::vector<PartStep>& steps() { return steps_; }
  const std::vector<PartStep>& steps() const { return steps_; }
  const std::vector<KernelRow>& rows() const { return rows_; }
  const std::vector<Copy>& copies() const { return copies_; }
  std::map<ValueId, bool>& fed() { return fed_; }
  const MemoryReport& memory() const { return memory_; }

 private:
  Status place(const Storage& s, void** pointer);
  Status place_constant(const Storage& s, void** pointer);
  Status plan_arena_block();
  void base_at(void* block);  // the arena's address
  void link();                // pointers of steps and copies, from those of the storages

  struct Patch {
    size_t step;
    bool output;
    size_t index;
  };

  const Graph& graph_;
  std::shared_ptr<Device> device_;
  std::shared_ptr<StateStore> store_;
  std::vector<NodeId> order_;
  std::vector<PartStep> steps_;
  std::vector<KernelRow> rows_;
  std::vector<Copy> copies_;
  std::vector<DeviceBuffer> buffers_;   // inputs and constants
  std::vector<Tensor> host_constants_;  // constants that the device reads where they are
  std::shared_ptr<SharedArena> arena_;
  std::vector<std::pair<size_t, uint64_t>> arena_storages_, workspaces_;  // storage or step, offset in the arena
  std::function<void()> moved_;
  StoragePlan storage_;
  std::vector<void*> pointers_;         // per storage
  std::map<int, std::vector<Patch>> patches_;  // of external storages
  std::map<ValueId, bool> fed_;         // needed inputs
  bool connected_ = false;
  MemoryReport memory_;
};

}  // namespace eng

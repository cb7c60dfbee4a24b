// Which values share memory. Every value gets a storage: a state's buffer, an input's, a constant's, or a piece of the arena. Views
// (Reshape) join their input's storage; an output joins a dying input's where the kernel may work in place; the next content of a
// state joins the state's own buffer where the update may be made in place, else it is copied there when the step is over.
#pragma once

#include <string>
#include <vector>

#include "backends/abi/backend_abi.h"
#include "graph/ir/graph.h"

namespace eng {

enum class StorageKind : uint8_t { kArena, kInput, kConstant, kState, kExternal };  // kExternal: the caller's memory, given before each run

struct Storage {
  StorageKind kind = StorageKind::kArena;
  ValueId owner = kNoValue;  // the value that it was made for: the state, input or constant itself, or the first value of an arena piece
  int first = 0, last = 0;   // steps during which an arena piece is alive
  uint64_t bytes = 0;
};

struct StoragePlan {
  std::vector<Storage> storages;
  std::vector<int> of;  // per value; -1 where a value is not used
  std::vector<std::pair<ValueId, ValueId>> copies;  // (state, next) that are not in place
};

struct StorageRequest {
  std::vector<ValueId> kept;      // content must survive the step (fetches, what other devices read)
  std::vector<ValueId> external;  // lie in memory of the caller's: nothing else shares it
  std::vector<ValueId> joined;    // outputs that are their first input under another name, whatever it is (Send)
};

// `aliases[i]` belongs to order[i]. `order` may be a part of the graph: values that it only reads get storages too.
StoragePlan plan_storage(const Graph& graph, const std::vector<NodeId>& order, const std::vector<std::vector<eb_alias>>& aliases,
                         const StorageRequest& request);
// Without external or joined values.
StoragePlan plan_storage(const Graph& graph, const std::vector<NodeId>& order, const std::vector<std::vector<eb_alias>>& aliases,
                         const std::vector<ValueId>& kept);

}  // namespace eng

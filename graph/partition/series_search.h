// Exact dynamic programming along the series of blocks: the state is the device of a boundary, the cost of a step is the
// block's own makespan between two boundary devices. Blocks of at most `exact_groups` groups and width 6 are searched exactly (branch and
// bound, up to a node limit), others by finish time and improvement.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "graph/partition/search.h"
#include "graph/partition/series.h"

namespace eng {

inline constexpr int kExactBlockWidth = 6;

class SeriesSearch {
 public:
  SeriesSearch(const Problem& problem, const Pieces& pieces, size_t exact_groups) : problem_(problem), pieces_(pieces), exact_groups_(exact_groups) {}

  // A placement of all groups. Prices as in search.h; memory limits are not looked at. `effort`: tasks that simulations may
  // visit, shared evenly by blocks and pairs of boundary devices.
  Placement run(int64_t effort, const Prices& prices = {});
  int64_t runs() const { return runs_; }

 private:
  struct Between {
    double seconds = kCannotRun;
    std::vector<int> inside;
  };
  using Table = std::vector<Between>;  // (entry device or 0) * devices + exit device (or 0)

  const Table& table_of(const Block& block, int64_t effort, const Prices& prices);
  Table search(const Problem& sub, const Block& block, int64_t effort, const Prices& prices);

  const Problem& problem_;
  const Pieces& pieces_;
  const size_t exact_groups_;
  std::map<std::string, Table> known_;  // blocks that look the same are searched once
  int64_t runs_ = 0;
};

}  // namespace eng

// How a problem falls into pieces. In the order of the forward tasks, a group over which no flow leads is a boundary:
// everything before it meets everything after it only there (it dominates what follows and post-dominates what precedes).
// The groups between two boundaries are a block; inside a block, branches and chains are what is worth moving as a whole.
#pragma once

#include <vector>

#include "graph/partition/problem.h"

namespace eng {

struct Block {
  int entry = -1, exit = -1;  // boundary groups; -1 at the ends where there is none
  std::vector<int> inside;    // in forward order, without the boundaries
};

struct Pieces {
  std::vector<int> order;                    // groups in the order of their forward tasks
  std::vector<Block> blocks;                 // one after the other; a block's exit is the next one's entry
  std::vector<std::vector<int>> units;       // chains, branches, blocks of two and more groups, each in forward order
  std::vector<int> block_of;                 // per group; an exit belongs to the block that it ends
};

// Shared weights are left out: they would tie everything between owner and users into one block.
Pieces find_pieces(const Problem& problem);

// The widest set of groups of the block none of which depends on another, estimated by levels.
int width_of(const Problem& problem, const Block& block);

// The block as a problem of its own, updates and limits left out; its makespan is what it adds to a step. Group 0 is the
// entry (it costs nothing here, being part of the block before) where there is one, then `inside`, then the exit.
Problem problem_of(const Problem& problem, const Block& block, std::vector<int>* groups);

}  // namespace eng

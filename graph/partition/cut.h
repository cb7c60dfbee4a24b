// Cuts a step into the parts that its places (devices) run: where a value is made at one place and read at another, a Send node at the
// maker's and a Recv node at the reader's join them; one pair a value and reading place, however many nodes read it there.
//
// A parameter or state lives at one place, its owner: where its next content is made, else where it is first read. Readers elsewhere get
// a copy at the start of each step; their gradients come back as ordinary values and are summed by the nodes that autodiff made.
// Every part keeps the relative order of the one order given, so no two parts can wait for each other.
#pragma once

#include <functional>
#include <map>
#include <vector>

#include "graph/ir/graph.h"

namespace eng {

struct Cut {
  std::vector<NodeId> order;           // every live node once, Send and Recv included; a place's part is its nodes in this order
  std::map<ValueId, int32_t> owners;   // place of each parameter and state that the graph uses
};

// Gives nodes without a place one: gradients and copies their forward node's, else the maker's of their first input, else their first reader's, else 0.
void place_rest(Graph& graph, const std::vector<NodeId>& order);

// `order`: all live nodes, producers first; every node has a place (place_rest). `known_place(value)`: of a parameter or state, where it lives already (-1: open);
// of an input or constant, the one place where it is (-1: at every place).
// Outputs and second values of updates are renamed to what arrives where they are needed.
Cut cut(Graph& graph, const std::vector<NodeId>& order, const std::function<int32_t(ValueId)>& known_place);

}  // namespace eng

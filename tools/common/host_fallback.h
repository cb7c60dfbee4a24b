// The host's CPU beside devices of --devices that lack a kernel for some of a step's nodes: those nodes are placed there, all others stay where
// the user wants them.
#pragma once

#include <string>
#include <vector>

#include "engine/plugin/device.h"
#include "graph/ir/graph.h"

namespace eng::tools {

// Labels of the nodes that at least one of these devices cannot run; none where a CPU is among them, which the user then placed there to be used, or
// where a device cannot be opened. The backends are loaded.
std::vector<std::string> nodes_for_host(const std::vector<std::string>& devices, const Graph& step);

// Places the nodes of a graph on `device` (place 0) or, where it cannot run them, on the host's CPU (place 1). How many went there.
int place_on_host(Graph& graph, Device& device);

// What a user is told of them.
std::string host_note(const std::vector<std::string>& labels, const std::string& devices);

// The devices with CPUs between them. `each`: one behind every device, so that each replica has its own; else one for all, at the end.
// host[i]: whether device i was put in.
std::vector<std::string> with_hosts(const std::vector<std::string>& devices, bool each, std::vector<bool>& host);

}  // namespace eng::tools

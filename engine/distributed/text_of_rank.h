// A text that one rank has, on all of them.
#pragma once

#include <string>

#include "engine/distributed/ranks.h"

namespace eng {

// `text` counts on `rank` alone. All ranks call it, in the order of their other collective calls.
Result<std::string> text_of_rank(Ranks& ranks, int rank, std::string text);

}  // namespace eng

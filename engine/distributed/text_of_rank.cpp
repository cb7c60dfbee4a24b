// See text_of_rank.h.
#include "engine/distributed/text_of_rank.h"

namespace eng {

Result<std::string> text_of_rank(Ranks& ranks, int rank, std::string text) {
  uint64_t length = text.size();
  ENG_TRY(ranks.broadcast(&length, sizeof length, rank));
  text.resize(length);
  if (length > 0) ENG_TRY(ranks.broadcast(text.data(), length, rank));
  return text;
}

}  // namespace eng

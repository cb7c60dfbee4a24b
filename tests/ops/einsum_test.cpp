// "Einsum" and its gradient, "EinsumGrad".
#include <doctest/doctest.h>

#include "tests/support/op_check.h"

using namespace eng;
using namespace eng::test;

TEST_CASE("Einsum sums, transposes, takes diagonals and broadcasts, forward and backward") {
  const std::vector<std::pair<std::string, std::vector<Shape>>> cases = {
      {"ij->ji", {{2, 3}}},
      {"ij->i", {{2, 3}}},
      {"ij->", {{2, 3}}},
      {"ij", {{2, 3}}},
      {"ba", {{2, 3}}},
      {"ii->i", {{3, 3}}},
      {"ii", {{3, 3}}},
      {"...ii->...i", {{2, 3, 3}}},
      {"i,i", {{4}, {4}}},
      {"i,j->ij", {{4}, {3}}},
      {"ij,jk->ik", {{2, 3}, {3, 4}}},
      {"ij, jk", {{2, 3}, {3, 4}}},
      {"bij,bjk->bik", {{2, 2, 3}, {2, 3, 4}}},
      {"bhqd,bhkd->bhqk", {{2, 2, 3, 2}, {2, 2, 4, 2}}},
      {"...ij,...jk->...ik", {{2, 1, 2, 3}, {4, 3, 2}}},
      {"...ij,jk", {{2, 2, 3}, {3, 2}}},
      {"...,...->...", {{2, 3}, {3}}},
      {"i...,i...->...", {{2, 3}, {2, 1}}},
      {"ij,kj,lj->ikl", {{2, 3}, {2, 3}, {2, 3}}},
      {"ij,j->j", {{2, 3}, {3}}},
      {"iij->j", {{2, 2, 3}}},
      {"ij,kl->il", {{2, 3}, {2, 2}}},
      {"->", {{}}},
      {"abc->cab", {{2, 3, 4}}}};
  uint64_t seed = 1;
  for (const auto& [equation, shapes] : cases) {
    OpCase c;
    c.op = "Einsum";
    for (const Shape& s : shapes) c.inputs.push_back(real(s));
    c.attributes = attrs({{"equation", equation}});
    c.seed = seed++;
    check_op(c);
  }
}

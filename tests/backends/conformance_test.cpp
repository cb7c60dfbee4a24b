// The conformance suite on the CPU backend and on the fake plugin, which is loaded as a user's would be.
#include <doctest/doctest.h>

#include "backends/cpu/entry.h"
#include "tests/support/backend_conformance.h"
#include "tests/support/fake_plugin.h"

using namespace eng;
using namespace eng::test;

TEST_CASE("conformance: the CPU backend") { run_backend_conformance(eb_cpu_backend()); }

TEST_CASE("conformance: the fake backend") {
  auto table = load_fake({{"FAKE_NAME", "fake_conformance"}});
  REQUIRE_MESSAGE(table.ok(), table.status().message());
  run_backend_conformance(*table);
}

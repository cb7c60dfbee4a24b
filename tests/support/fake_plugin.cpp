// See fake_plugin.h.
#include "tests/support/fake_plugin.h"

#include <cstdlib>

#include "engine/plugin/loader.h"

namespace eng::test {

std::string fake_backend_path() {
  const char* folder = std::getenv("ENGINE_BIN");
  return std::string(folder ? folder : ".") + "/plugins/fake_backend.so";
}

Result<const eb_backend_table*> load_fake(const std::vector<std::pair<std::string, std::string>>& settings) {
  for (const auto& [name, value] : settings) setenv(name.c_str(), value.c_str(), 1);
  auto table = load_backend(fake_backend_path());
  for (const auto& [name, value] : settings) unsetenv(name.c_str());
  return table;
}

}  // namespace eng::test

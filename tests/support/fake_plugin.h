// Loads tests/support/fake_backend with settings (its environment variables, set only while it is asked for its table).
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "backends/abi/backend_abi.h"
#include "graph/base/status.h"

namespace eng::test {

std::string fake_backend_path();
Result<const eb_backend_table*> load_fake(const std::vector<std::pair<std::string, std::string>>& settings);

}  // namespace eng::test

// A command of ENGINE_BIN run as a process of its own: exit status and what it printed.
#pragma once

#include <doctest/doctest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace eng::test {

struct CommandResult {
  int status = -1;
  std::string out, err;
  bool says(const std::string& text) const { return err.find(text) != std::string::npos; }
};

inline std::string text_of_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// `folder` takes the two files with the output.
inline CommandResult run_command(const std::string& folder, const std::string& command, const std::vector<std::string>& words) {
  const char* bin = std::getenv("ENGINE_BIN");
  REQUIRE_MESSAGE(bin, "ENGINE_BIN names the folder of the programs (ctest sets it)");
  std::string line = "timeout 60 '" + std::string(bin) + "/" + command + "'";
  for (const std::string& w : words) line += " '" + w + "'";
  const int status = std::system((line + " >'" + folder + "/stdout.txt' 2>'" + folder + "/stderr.txt'").c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, text_of_file(folder + "/stdout.txt"), text_of_file(folder + "/stderr.txt")};
}

}  // namespace eng::test

// What the commands say on stderr: notes (unless silent), warnings and errors (always). A progress bar that is drawn steps aside.
#pragma once

#include <string>

#include "engine/report/progress.h"
#include "graph/base/status.h"

namespace eng::tools {

// Text as a terminal may have it: names out of a file must not move its cursor or turn its lines round. Lines and tabs stay, all else is as printable()
// (engine/io/file.h) has it; JSON stays JSON.
std::string for_terminal(const std::string& text);
// The same on stdout, for results.
void print_text(const std::string& text);

class Console {
 public:
  explicit Console(int verbosity, Progress* progress = nullptr) : verbosity_(verbosity), progress_(progress) {}
  void note(const std::string& text) const;
  void warn(const std::string& text) const;
  // Prints an error, if it is one, and gives the exit status. A standard output that took not all is one too.
  int finish(const Status& result) const;

 private:
  int verbosity_;
  Progress* progress_;
};

}  // namespace eng::tools

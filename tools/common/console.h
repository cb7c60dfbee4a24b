// What the commands say on stderr: notes (unless silent), warnings and errors (always). A progress bar that is drawn steps aside.
#pragma once

#include <string>

#include "engine/io/file.h"
#include "engine/report/progress.h"
#include "graph/base/status.h"

namespace eng::tools {

// Text on stdout as a terminal may have it (for_terminal in engine/io/file.h): for results.
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

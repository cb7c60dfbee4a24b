// See console.h.
#include "tools/common/console.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "engine/io/file.h"

namespace eng::tools {

void print_text(const std::string& text) { std::fputs(for_terminal(text).c_str(), stdout); }

void Console::note(const std::string& text) const {
  if (verbosity_ <= 0) return;
  if (progress_) progress_->clear();
  std::fprintf(stderr, "%s\n", for_terminal(text).c_str());
}

void Console::warn(const std::string& text) const {
  if (progress_) progress_->clear();
  std::fprintf(stderr, "warning: %s\n", for_terminal(text).c_str());
}

int Console::finish(const Status& result) const {
  Status status = result;
  if (status.ok() && (std::fflush(stdout) != 0 || std::ferror(stdout))) status = invalid("the result could not be written to the standard output: ", std::strerror(errno));
  if (status.ok()) return 0;
  if (progress_) progress_->clear();
  std::fprintf(stderr, "%s: %s\n", status.code() == Code::kStopped ? "stopped" : "error", for_terminal(status.message()).c_str());
  return exit_status(status.code());
}

}  // namespace eng::tools

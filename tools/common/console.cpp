// See console.h.
#include "tools/common/console.h"

#include <cstdio>

namespace eng::tools {

void Console::note(const std::string& text) const {
  if (verbosity_ <= 0) return;
  if (progress_) progress_->clear();
  std::fprintf(stderr, "%s\n", text.c_str());
}

void Console::warn(const std::string& text) const {
  if (progress_) progress_->clear();
  std::fprintf(stderr, "warning: %s\n", text.c_str());
}

int Console::finish(const Status& status) const {
  if (status.ok()) return 0;
  if (progress_) progress_->clear();
  std::fprintf(stderr, "%s: %s\n", status.code() == Code::kStopped ? "stopped" : "error", status.message().c_str());
  return exit_status(status.code());
}

}  // namespace eng::tools

// See progress.h.
#include "engine/report/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace eng {
namespace {

size_t terminal_columns() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 20 ? size.ws_col : 80;
}

std::string bar_of(int64_t done, int64_t total) {
  constexpr int64_t kWidth = 24;
  const int64_t filled = total > 0 ? std::clamp<int64_t>(done * kWidth / total, 0, kWidth) : 0;
  std::string bar(static_cast<size_t>(kWidth), '.');
  std::fill_n(bar.begin(), filled, '=');
  if (filled < kWidth) bar[static_cast<size_t>(filled)] = '>';
  return bar;
}

}  // namespace

std::string clock_text(double seconds) {
  const int64_t s = static_cast<int64_t>(std::max(0.0, std::ceil(seconds)));
  return s >= 3600 ? fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60) : fmt::format("{}:{:02}", s / 60, s % 60);
}

std::string epoch_line(const EpochRecord& r, int64_t epochs) {
  std::string line = fmt::format("epoch {}/{}: loss {:.6g}", r.epoch + 1, epochs, r.loss);
  if (r.accuracy) line += fmt::format(", accuracy {:.4f}", *r.accuracy);
  if (r.val_loss) line += fmt::format(", val_loss {:.6g}", *r.val_loss);
  if (r.val_accuracy) line += fmt::format(", val_accuracy {:.4f}", *r.val_accuracy);
  line += fmt::format(", lr {:.3g}, {:.1f} s, {:.1f} samples/s", r.rate, r.seconds, r.samples_per_second);
  if (r.skipped_files) line += fmt::format(", {} unreadable file{} left out", r.skipped_files, r.skipped_files == 1 ? "" : "s");
  return line + (r.best ? " (best so far)" : "");
}

Progress::Progress(int verbosity, int64_t epochs) : verbosity_(verbosity), epochs_(epochs), bar_(verbosity == 1 && isatty(STDERR_FILENO) == 1) {}
Progress::~Progress() { clear(); }

bool Progress::due() {
  const auto now = std::chrono::steady_clock::now();
  if (drawn_ && now - last_ < std::chrono::milliseconds(100)) return false;
  last_ = now;
  return true;
}

void Progress::draw(const std::string& line) {
  std::fprintf(stderr, "\r\033[K%s", line.substr(0, terminal_columns() - 1).c_str());
  std::fflush(stderr);
  drawn_ = true;
}

void Progress::clear() {
  if (!drawn_) return;
  std::fputs("\r\033[K", stderr);
  std::fflush(stderr);
  drawn_ = false;
}

void Progress::stage(const std::string& name, int64_t done, int64_t total) {
  if (!bar_) return;
  if (done >= total) {
    clear();
  } else if (due()) {
    draw(fmt::format("{} [{}] {}/{}", name, bar_of(done, total), done, total));
  }
}

void Progress::step(const StepRecord& r) {
  if (!bar_ || !due()) return;
  const double per_step = r.seconds;
  std::string line = fmt::format("{}/{} [{}] {}/{} loss {:.4g}", r.epoch + 1, epochs_, bar_of(r.step_in_epoch, r.steps_per_epoch),
                                 r.step_in_epoch, r.steps_per_epoch, r.epoch_so_far.mean_loss());
  if (r.accuracy) line += fmt::format(" acc {:.4f}", r.epoch_so_far.accuracy());
  if (per_step > 0) {
    line += fmt::format(" {:.1f}/s eta {}", static_cast<double>(r.batch) / per_step,
                        clock_text(per_step * static_cast<double>(r.steps_per_epoch - r.step_in_epoch)));
  }
  draw(line);
}

void Progress::evaluating(int64_t done, int64_t total) { stage("evaluating", done, total); }

void Progress::epoch(const EpochRecord& record) {
  clear();
  if (verbosity_ > 0) std::fprintf(stderr, "%s\n", epoch_line(record, epochs_).c_str());
}

}  // namespace eng

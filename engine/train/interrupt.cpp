// See interrupt.h. The handler only stores a number and restores the default action. Several threads read the number (lock-free, so the handler may write it).
#include "engine/train/interrupt.h"

#include <atomic>
#include <csignal>

namespace eng {
namespace {

std::atomic<int> signal_seen{0};
static_assert(std::atomic<int>::is_always_lock_free);

void on_signal(int number) { signal_seen = number; }

}  // namespace

void catch_interrupts() {
  struct sigaction action = {};
  action.sa_handler = on_signal;
  sigemptyset(&action.sa_mask);
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  struct sigaction hangup = {};
  if (sigaction(SIGHUP, nullptr, &hangup) == 0 && hangup.sa_handler != SIG_IGN) sigaction(SIGHUP, &action, nullptr);  // a lost terminal, but not under nohup
}

int interrupt_signal() { return signal_seen; }
void clear_interrupt() { signal_seen = 0; }

}  // namespace eng

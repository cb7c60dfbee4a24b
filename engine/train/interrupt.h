// Ctrl-C (SIGINT) and SIGTERM as a flag that the training loop looks at between steps. A second signal ends the process at once.
#pragma once

namespace eng {

// Installs the handlers; calling it again does nothing.
void catch_interrupts();
// The signal that came, or 0.
int interrupt_signal();
// For tests and for loops that run after one another.
void clear_interrupt();

}  // namespace eng

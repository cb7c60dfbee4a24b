// Open MPI's own texts about a peer that hung up, and its MPI_Abort banner: held back, since the run has its own one message. Such a text also
// costs Open MPI 4.1 a second inside MPI_Test when the launcher is busy ending the run: the second in which that message has to get out.
#pragma once

namespace eng {

// After MPI_Init, on the thread that calls MPI. Does nothing with an MPI that has no such hook (Open MPI's opal_show_help).
void hold_back_mpi_texts();
// Whether a text about a peer's connection was held back since the last call: somebody may be lost.
bool connection_trouble();

}  // namespace eng

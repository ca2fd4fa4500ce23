// Logs a failure that every process of a launch may have, once, where no collective can choose the rank that logs it:
// MPI has not connected the processes yet, or cannot.
#pragma once

#include "comm/agreement.h"
#include "comm/launch.h"

namespace tessera::comm {

// Logs why this process cannot start. It takes bad input to be common to all processes of the launch: of the processes
// that one parent started on this host, the first to call this logs it, and waits until the others have ended (1 s at
// least, 30 s at most), so that they find it logged. Any other failure concerns this process alone; it logs its rank.
void log_failed_start(const Launch& launch, const Failure& failure);

}  // namespace tessera::comm

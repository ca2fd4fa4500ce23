// Who says what all processes of a launcher have to say, where no collective can decide it: they are not joined yet, or
// MPI cannot join them.
#pragma once

#include "comm/agreement.h"
#include "comm/launch.h"

namespace tessera::comm {

// Logs why this process cannot start. Bad input is taken to be that of all processes of the launch: of those that the
// same parent started on this host the first one speaks, and stays until the others have heard that it has been said.
// What failed otherwise, failed here alone, and is said with the rank.
void log_failed_start(const Launch& launch, const Failure& failure);

}  // namespace tessera::comm

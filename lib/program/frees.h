// Adds to the frees of each instruction the resources that it is the last to read.
#pragma once

#include "program/program.h"

namespace tessera::program {

// Values, gradients, graphs, totals, losses, the clip factor and shard gradients are freed by the last instruction that
// reads them, or by the one that makes them if none does. The results of the program are not freed. Instructions of
// their own (Free, Wait Reduce) free weights and gradient buffers.
void append_frees(Program& program);

}  // namespace tessera::program

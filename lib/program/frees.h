// Adds to each instruction's frees what it is the last to read.
#pragma once

#include "program/program.h"

namespace tessera::program {

// For values, gradients, graphs, totals, losses, clip factor and shard gradients: freed by the last instruction that
// reads them, or by the one that makes them if none does. Results of the program stay. Weights and gradient buffers
// have instructions of their own (Free, Wait Reduce).
void append_frees(Program& program);

}  // namespace tessera::program

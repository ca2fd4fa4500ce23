// Puts Gather, Wait and Free around the instructions that use a unit's weights.
#pragma once

#include "program/builder_options.h"
#include "program/program.h"
#include "program/schedule.h"

namespace tessera::program {

// A unit stays gathered over an interval of instructions that the mode decides: one pass of one micro-step (fsdp2,
// zero3), both passes of a micro-step (without reshard_after_forward), or the whole step (zero1, zero2, ddp). The
// gather of an interval starts while the chain that runs `prefetch_depth` chains earlier is in use, but not before the
// unit was freed.
void schedule_gathers(Program& program, const Schedule& schedule, const BuilderOptions& options);

}  // namespace tessera::program

// Puts Gather, Wait and Free around the instructions that use a unit's weights.
#pragma once

#include "program/builder_options.h"
#include "program/program.h"
#include "program/schedule.h"

namespace tessera::program {

// The mode decides over which interval of instructions a unit stays gathered: the passes of one direction in a Turns of
// `schedule` (fsdp2, zero3), both passes of a micro-step (without reshard_after_forward), or the whole program (zero1,
// zero2, ddp). The gather of an interval starts with the chain that runs `prefetch_depth` chains earlier, but not
// before the unit was freed.
void schedule_gathers(Program& program, const Schedule& schedule, const BuilderOptions& options);

}  // namespace tessera::program

// Builds the program of a training step or evaluation by a pure function of architecture, placements, layout, options.
#pragma once

#include <cstdint>
#include <vector>

#include "architecture/architecture.h"
#include "config/settings.h"
#include "layout/layout.h"
#include "plan/placement.h"
#include "program/builder_options.h"
#include "program/program.h"
#include "program/schedule.h"

namespace tessera::program {

// Builds the program of a step whose passes follow each other as `schedule` says. Precondition: the schedule is legal
// (expect_legal).
[[nodiscard]] Program build_program(const architecture::Architecture& architecture,
                                    const std::vector<plan::Placement>& placements, const layout::Layout& layout,
                                    const BuilderOptions& options, const Schedule& schedule);

// The same by the schedule that the options ask for: two micro-steps at a time take turns with overlap_exchange, if the
// step trains and there are rows to exchange; else one micro-step follows the other.
[[nodiscard]] Program build_program(const architecture::Architecture& architecture,
                                    const std::vector<plan::Placement>& placements, const layout::Layout& layout,
                                    const BuilderOptions& options);

}  // namespace tessera::program

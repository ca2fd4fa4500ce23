// Saves in every layout and loads in every layout, with numbers that each tell where they belong.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "layouts.h"

namespace tessera::test {

// Damages the state that a rank has loaded, before it is checked.
using Damage = std::function<void(train::Assembly&)>;

// Saves once in each layout, and loads each of these checkpoints in each layout. Returns the faults that this rank
// sees. There are none if every master and moment is bitwise the value of the formula of (parameter, state, element,
// save), no rank reads a byte that it does not hold, one rank verifies every byte, the optimizer's count is that of the
// save, and one rank alone reads every parameter whole. `words` are options of every run. Collective over the world.
[[nodiscard]] std::vector<std::string> faults_of_every_pair(const std::vector<CheckpointLayout>& layouts,
                                                            const Words& words, const Damage& damage = {});

// Fails on every rank if any rank sees a fault. Collective over the world.
void check_every_pair(const std::vector<CheckpointLayout>& layouts, const Words& words);

}  // namespace tessera::test

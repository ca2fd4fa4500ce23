// Saves in layouts and loads in layouts, of numbers that each say whose they are.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "layouts.h"

namespace tessera::test {

// Done to what a rank has loaded, before it is looked at.
using Damage = std::function<void(train::Assembly&)>;

// Saves once in each layout, and loads each of these checkpoints in each layout. What is wrong, as this rank sees it;
// nothing, if every master and moment is bitwise what the formula of (parameter, state, element, save) says, no byte is
// read that the rank does not hold, every byte is verified by one rank, the optimizer's count is the save's, and one
// rank alone reads every parameter whole. `words`: of every run. Collective over the world.
[[nodiscard]] std::vector<std::string> faults_of_every_pair(const std::vector<CheckpointLayout>& layouts,
                                                            const Words& words, const Damage& damage = {});

// Fails on every rank if any rank sees a fault. Collective over the world.
void check_every_pair(const std::vector<CheckpointLayout>& layouts, const Words& words);

}  // namespace tessera::test

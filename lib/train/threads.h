// How many threads a rank computes with.
#pragma once

#include <cstdint>

namespace tessera::train {

// Sets the number of LibTorch's threads and returns it: `asked` (train.threads) if it is positive, else the first
// number of OMP_NUM_THREADS, else `share`, this rank's share of the cores.
int set_threads(std::int64_t asked, std::int64_t share);

}  // namespace tessera::train

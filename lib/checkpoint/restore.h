// Loads a checkpoint into the shards of this rank, whatever layout it was written in.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/parameter_spec.h"
#include "checkpoint/stored_checkpoint.h"
#include "fsdp/parameter_store.h"
#include "optim/optimizer.h"

namespace tessera::checkpoint {

// Throws Error(bad_input) that names every parameter of the model that the checkpoint lacks or has in another shape,
// and every parameter of the checkpoint that the model lacks.
void require_same_parameters(const StoredCheckpoint& stored, const std::vector<base::ParameterSpec>& parameters);

struct Restored {
  std::uint64_t bytes_needed = 0;    // of this rank's masters and moments, in the types in which they are stored
  std::uint64_t bytes_read = 0;      // read for them
  std::uint64_t bytes_verified = 0;  // of this rank's share of the checkpoint, compared with its hashes
  std::vector<std::string> absent;   // states that the checkpoint lacks; those of the run are unchanged
};

// Verifies share `rank` of `ranks` of the checkpoint, then reads masters and moments from it, converting types. Sets
// the optimizer's count of steps to the checkpoint's, or to 0 if the checkpoint lacks a state. Does not communicate:
// the caller makes the ranks agree on its errors. Precondition: require_same_parameters has passed.
Restored restore(StoredCheckpoint& stored, fsdp::ParameterStore& store, optim::Optimizer& optimizer, std::int64_t rank,
                 std::int64_t ranks);

}  // namespace tessera::checkpoint

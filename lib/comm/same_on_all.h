// Whether all ranks were given the same: ranks that were not would train different things together, or wait for each
// other for ever.
#pragma once

#include <string>
#include <vector>

#include "comm/communicator.h"

namespace tessera::comm {

// Something that has to be the same on every rank, and what it is on this one, exactly: never as it is rounded for
// people.
struct Fact {
  std::string key;  // "model.rope_theta"; none twice
  std::string value;
};

// Collective over `group`; ranks may pass facts of other keys, or another number of them. Returns if all ranks passed
// the same. Otherwise every rank throws AgreedError(bad_input) about the first rank that differs from rank 0: which
// facts, the first few with both values.
void require_same_on_all(Communicator& group, const std::vector<Fact>& facts);

}  // namespace tessera::comm

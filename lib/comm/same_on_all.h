// Checks that all ranks were given the same input. Ranks with different settings or data would train something else
// than intended, or wait for each other for ever.
#pragma once

#include <string>
#include <vector>

#include "comm/communicator.h"

namespace tessera::comm {

// A value that must be equal on every rank. `value` is this rank's value written exactly, never rounded for display.
struct Fact {
  std::string key;  // "model.rope_theta"; unique in its list
  std::string value;
};

// Collective over `group`. Returns if all ranks passed the same facts in the same order. Otherwise every rank throws
// AgreedError(bad_input), which names the first rank that differs from rank 0 and lists the facts that differ, the
// first few with both values. Ranks may pass different keys, or different numbers of facts.
void require_same_on_all(Communicator& group, const std::vector<Fact>& facts);

}  // namespace tessera::comm

// Uses and units: how segments need parameters, and which parameters travel together.
#pragma once

#include <string>
#include <vector>

namespace tessera::plan {

// owned: the rank's dim-0 part of an extra parallel (rows come by exchange); whole: gathered over dim 0 too.
// For a parameter without an extra-parallel cut both mean the whole tensor.
enum class UseKind { owned, whole };

struct Use {
  std::string fqn;
  UseKind kind = UseKind::whole;
  friend bool operator==(const Use&, const Use&) = default;
};

// Parameters that are gathered, freed and reduced together. `uses` are in the order in which they lie in a packed
// buffer.
struct Unit {
  std::string name;  // "embed", "layers.3.attention", "layers.3.experts", "head"
  std::vector<Use> uses;
};

}  // namespace tessera::plan

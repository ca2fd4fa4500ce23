// Uses and units: the ways in which segments need parameters, and the parameters that are gathered together.
#pragma once

#include <string>
#include <vector>

namespace tessera::plan {

// owned: a segment needs the rank's dim-0 part of an extra parallel, and rows are exchanged. whole: it needs the
// parameter gathered over dim 0 too. For a parameter that no extra parallel cuts both mean the whole tensor.
enum class UseKind { owned, whole };

struct Use {
  std::string fqn;
  UseKind kind = UseKind::whole;
  friend bool operator==(const Use&, const Use&) = default;
};

// Parameters that are gathered, freed and reduced together. `uses` has their order in a packed buffer.
struct Unit {
  std::string name;  // "embed", "layers.3.attention", "layers.3.experts", "head"
  std::vector<Use> uses;
};

}  // namespace tessera::plan

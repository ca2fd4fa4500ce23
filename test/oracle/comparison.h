// Lists differences between two outcomes that exceed stated bounds (bars).
#pragma once

#include <string>
#include <vector>

#include "fixture.h"

namespace tessera::test {

struct Bars {
  double logits;     // relative to their largest magnitude
  double losses;     // relative
  double gradients;  // relative to each gradient's largest value; after AdamW's steps, to each parameter's
};

[[nodiscard]] Bars bars_of(Bits bits);

// Returns one line for each loss, logits, top-k choice and gradient that differs by more than its bar; empty if all
// agree.
[[nodiscard]] std::vector<std::string> differences(const Outcome& ours, const Outcome& expected, const Bars& bars);

// The same for the losses and norms of each step, and the weights.
[[nodiscard]] std::vector<std::string> differences(const Training& ours, const Training& expected, const Bars& bars);

}  // namespace tessera::test

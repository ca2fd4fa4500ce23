// Checkpoints in which every number tells which save wrote it.
#pragma once

#include <cstdint>
#include <optional>

#include "base/file.h"
#include "checkpoint/saver.h"
#include "train/assemble.h"

namespace tessera::test {

// Sets every master and moment that this rank holds to `mark`.
void fill_with(train::Assembly& assembly, double mark);

[[nodiscard]] checkpoint::SavedFacts facts_of_step(std::int64_t step);

struct Marked {
  std::int64_t step = 0;
  double mark = 0;
  friend bool operator==(const Marked&, const Marked&) = default;
};

// Reads the latest checkpoint of `output` and verifies every byte. Returns its step and the number that all its numbers
// are, or nothing if there is no checkpoint; throws if it is damaged or mixes two saves.
[[nodiscard]] std::optional<Marked> latest_of(const base::Path& output);

}  // namespace tessera::test

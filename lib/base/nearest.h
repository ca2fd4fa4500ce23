// "did you mean": the known name that a mistyped one most likely stands for.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace tessera::base {

// The least number of insertions, deletions, substitutions and swaps of neighbours that turn `a` into `b`
// (Damerau-Levenshtein in its optimal string alignment form: no substring is edited twice).
[[nodiscard]] std::size_t edit_distance(std::string_view a, std::string_view b);

// Returns the candidate nearest to `name`, or nothing if none is near. Tries in this order, ignoring case and reading
// '-' as '_': an equal name; an equal last component of a dotted path (`lr` for `train.optimizer.lr`), the one with the
// smallest edit distance; the smallest edit distance, if it is at most a third of the name's length, or 1. The first
// of several equally near candidates wins.
[[nodiscard]] std::optional<std::string> nearest_name(std::string_view name, std::span<const std::string> candidates);

// Returns "; did you mean X?", or an empty string if no candidate is near.
[[nodiscard]] std::string did_you_mean(std::string_view name, std::span<const std::string> candidates);

}  // namespace tessera::base

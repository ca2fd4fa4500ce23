// "did you mean": the known name that a mistyped one most likely stands for.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace tessera::base {

// Number of insertions, deletions, substitutions and swaps of neighbours that turn `a` into `b`
// (Damerau-Levenshtein in its optimal string alignment form: no substring is edited twice).
[[nodiscard]] std::size_t edit_distance(std::string_view a, std::string_view b);

// The candidate nearest to `name`, or nothing if none is near. In this order: equal but for case and '-' for '_';
// equal last component of a dotted path (`lr` for `train.optimizer.lr`), the one with the smaller distance;
// smallest edit distance, if at most a third of the name's length (at least 1). Ties: the first candidate.
[[nodiscard]] std::optional<std::string> nearest_name(std::string_view name, std::span<const std::string> candidates);

// "; did you mean X?" or an empty string.
[[nodiscard]] std::string did_you_mean(std::string_view name, std::span<const std::string> candidates);

}  // namespace tessera::base

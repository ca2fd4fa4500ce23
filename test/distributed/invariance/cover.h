// A short list of cases in which any two (or three) values of different factors meet.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

namespace tessera::test {

// One value (an index) per factor.
using Choice = std::vector<std::size_t>;

// Returns legal cases that together contain, for every `strength` factors, each combination of their values that occurs
// in some legal case. Greedy; the same list on every rank. `sizes` are the numbers of values of the factors, each at
// least 1.
[[nodiscard]] std::vector<Choice> cover(const std::vector<std::size_t>& sizes, std::size_t strength,
                                        const std::function<bool(const Choice&)>& is_legal);

}  // namespace tessera::test

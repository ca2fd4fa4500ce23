// A short list of cases in which any two (or three) values of different factors meet.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

namespace tessera::test {

// One value (an index) per factor.
using Choice = std::vector<std::size_t>;

// Cases, all of them legal, such that for every `strength` factors each combination of their values that some legal
// case has occurs at least once. Greedy, the same list on every rank. `sizes`: values of each factor, each at least 1.
[[nodiscard]] std::vector<Choice> cover(const std::vector<std::size_t>& sizes, std::size_t strength,
                                        const std::function<bool(const Choice&)>& is_legal);

}  // namespace tessera::test

// Uneven numbers of rows per group, for the benchmarks of grouped products.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tessera::bench {

struct GroupedCase {
  std::string name;
  std::vector<std::int64_t> counts;  // rows of each group
};

// Divides `rows` in proportion to `share`.
inline std::vector<std::int64_t> counts_in_proportion(const std::vector<double>& share, std::int64_t rows) {
  double sum = 0, before = 0;
  for (const double s : share) sum += s;
  std::vector<std::int64_t> counts;
  std::int64_t given = 0;
  for (const double s : share) {
    before += s;
    const std::int64_t end = std::llround(before / sum * static_cast<double>(rows));
    counts.push_back(end - given);
    given = end;
  }
  return counts;
}

// Returns the cases for `groups` groups, at least 6, and `rows` rows.
inline std::vector<GroupedCase> grouped_cases(std::int64_t groups, std::int64_t rows) {
  const auto size = static_cast<std::size_t>(groups);
  std::vector<double> uniform(size, 1.0), zipf, one_hot(size, 0.0), partly_empty;
  for (std::size_t g = 0; g < size; ++g) {
    zipf.push_back(std::pow(static_cast<double>(g + 1), -1.2));
    partly_empty.push_back(g % 2 == 0 ? 1.0 : 0.0);
  }
  one_hot[5] = 1.0;
  return {{"uniform", counts_in_proportion(uniform, rows)},
          {"Zipf(1.2)", counts_in_proportion(zipf, rows)},
          {"one-hot", counts_in_proportion(one_hot, rows)},
          {"every other group empty", counts_in_proportion(partly_empty, rows)}};
}

}  // namespace tessera::bench

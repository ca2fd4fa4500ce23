#include "base/nearest.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <vector>

namespace tessera::base {
namespace {

// Lower case, with '_' for '-'.
std::string normal_form(std::string_view name) {
  std::string out(name);
  for (char& c : out) {
    if (c == '-') c = '_';
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

std::string_view last_component(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  return dot == std::string_view::npos ? name : name.substr(dot + 1);
}

}  // namespace

std::size_t edit_distance(std::string_view a, std::string_view b) {
  // Rows i-2, i-1 and i of the table of distances between prefixes.
  std::vector<std::size_t> before(b.size() + 1), above(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::swap(before, above);
    std::swap(above, row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, replaced});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row[b.size()];
}

std::optional<std::string> nearest_name(std::string_view name, std::span<const std::string> candidates) {
  const std::string wanted = normal_form(name);
  const std::string_view wanted_last = last_component(wanted);
  const std::string* near = nullptr;
  const std::string* same_last = nullptr;
  std::size_t near_distance = std::max<std::size_t>(1, wanted.size() / 3) + 1;
  std::size_t last_distance = std::numeric_limits<std::size_t>::max();
  for (const std::string& candidate : candidates) {
    const std::string known = normal_form(candidate);
    if (known == wanted) return candidate;
    const std::size_t distance = edit_distance(wanted, known);
    if (!wanted_last.empty() && last_component(known) == wanted_last && distance < last_distance) {
      same_last = &candidate;
      last_distance = distance;
    }
    if (distance < near_distance) {
      near = &candidate;
      near_distance = distance;
    }
  }
  if (same_last != nullptr) return *same_last;
  if (near != nullptr) return *near;
  return std::nullopt;
}

std::string did_you_mean(std::string_view name, std::span<const std::string> candidates) {
  const std::optional<std::string> near = nearest_name(name, candidates);
  return near ? fmt::format("; did you mean {}?", *near) : std::string();
}

}  // namespace tessera::base

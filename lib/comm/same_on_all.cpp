#include "comm/same_on_all.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>

#include "base/error.h"
#include "base/hash.h"
#include "comm/agreement.h"

namespace tessera::comm {

namespace {

constexpr char separator = '\0';  // after each key and value; neither contains it

std::string text_of(const std::vector<Fact>& facts) {
  std::string text;
  for (const auto& fact : facts) text.append(fact.key).append(1, separator).append(fact.value).append(1, separator);
  return text;
}

std::vector<Fact> facts_of(const std::string& text) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at < text.size();) {
    const auto end = text.find(separator, at);
    parts.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  std::vector<Fact> facts;
  for (std::size_t k = 0; k + 1 < parts.size(); k += 2) facts.push_back({parts[k], parts[k + 1]});
  return facts;
}

std::string shown(const std::map<std::string, std::string>& values, const std::string& key) {
  constexpr std::size_t most = 200;
  const auto found = values.find(key);
  if (found == values.end()) return "absent";
  return found->second.size() <= most ? found->second : found->second.substr(0, most) + "...";
}

// Lists the differences in rank 0's order, then the facts that rank 0 lacks.
std::string describe_differences(const std::vector<Fact>& first, const std::vector<Fact>& here) {
  constexpr std::size_t most = 5;
  std::map<std::string, std::string> of_first, of_here;
  for (const auto& fact : first) of_first.emplace(fact.key, fact.value);
  for (const auto& fact : here) of_here.emplace(fact.key, fact.value);
  std::vector<std::string> differences;
  const auto compare = [&](const std::string& key) {
    const auto a = of_first.find(key), b = of_here.find(key);
    if (a != of_first.end() && b != of_here.end() && a->second == b->second) return;
    differences.push_back(
        fmt::format("{} is {} there, and {} on rank 0", key, shown(of_here, key), shown(of_first, key)));
  };
  for (const auto& fact : first) compare(fact.key);
  for (const auto& fact : here)
    if (!of_first.contains(fact.key)) compare(fact.key);
  if (differences.empty()) return "the same values in another order";
  const auto shown_of_them = std::min(differences.size(), most);
  auto text = fmt::format(
      "{}", fmt::join(differences.begin(), differences.begin() + static_cast<std::ptrdiff_t>(shown_of_them), "; "));
  if (differences.size() > most) text += fmt::format("; and {} more", differences.size() - most);
  return text;
}

}  // namespace

void require_same_on_all(Communicator& group, const std::vector<Fact>& facts) {
  if (group.size() == 1) return;
  const auto own = text_of(facts);
  const auto hashes = numbers_of_ranks(group, static_cast<std::int64_t>(base::xxh3(own)));
  const auto other = std::find_if(hashes.begin(), hashes.end(), [&](std::int64_t h) { return h != hashes.front(); });
  if (other == hashes.end()) return;
  const auto rank = other - hashes.begin();
  const auto first = facts_of(text_of_rank(group, 0, own));
  const auto differences = text_of_rank(group, rank, group.rank() == rank ? describe_differences(first, facts) : "");
  throw AgreedError(
      base::ExitCode::bad_input,
      fmt::format("rank {} was started with other settings, another model or plan, or other data than rank "
                  "0: {}; start all ranks by one command, with files that are the same on every host",
                  rank, differences));
}

}  // namespace tessera::comm

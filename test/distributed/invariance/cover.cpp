#include "cover.h"

#include <algorithm>
#include <map>
#include <random>
#include <set>

namespace tessera::test {
namespace {

// Values of some factors: (factor, value), ascending by factor.
using Combination = std::vector<std::pair<std::size_t, std::size_t>>;

// Calls `visit` with every set of `strength` factors of `count`.
void for_each_set(std::size_t count, std::size_t strength, std::size_t first, std::vector<std::size_t>& chosen,
                  const std::function<void(const std::vector<std::size_t>&)>& visit) {
  if (chosen.size() == strength) return visit(chosen);
  for (auto factor = first; factor < count; ++factor) {
    chosen.push_back(factor);
    for_each_set(count, strength, factor + 1, chosen, visit);
    chosen.pop_back();
  }
}

class Cover {
 public:
  Cover(const std::vector<std::size_t>& sizes, std::size_t strength, const std::function<bool(const Choice&)>& is_legal)
      : sizes_(sizes), is_legal_(is_legal) {
    std::vector<std::size_t> chosen;
    for_each_set(sizes.size(), strength, 0, chosen, [&](const auto& factors) { sets_.push_back(factors); });
    for (const auto& factors : sets_) {
      Combination combination;
      add_combinations(factors, combination);
    }
  }

  std::vector<Choice> cases() {
    std::vector<Choice> list;
    while (!open_.empty()) {
      const auto wanted = *open_.begin();
      const auto found = best_with(wanted);
      if (found.empty()) {
        open_.erase(wanted);  // no legal case has it
        continue;
      }
      for (const auto& combination : combinations_of(found)) open_.erase(combination);
      list.push_back(found);
    }
    return list;
  }

 private:
  void add_combinations(const std::vector<std::size_t>& factors, Combination& combination) {
    if (combination.size() == factors.size()) {
      open_.insert(combination);
      return;
    }
    const auto factor = factors[combination.size()];
    for (std::size_t value = 0; value < sizes_[factor]; ++value) {
      combination.emplace_back(factor, value);
      add_combinations(factors, combination);
      combination.pop_back();
    }
  }

  [[nodiscard]] std::vector<Combination> combinations_of(const Choice& choice) const {
    std::vector<Combination> all;
    for (const auto& factors : sets_) {
      auto& combination = all.emplace_back();
      for (const auto factor : factors) combination.emplace_back(factor, choice[factor]);
    }
    return all;
  }

  // Draws many legal cases that contain `wanted`; returns the one that covers the most open combinations, or an empty
  // one if no case is legal.
  Choice best_with(const Combination& wanted) {
    constexpr int candidates = 60, tries = 4000;
    Choice best;
    std::size_t most = 0;
    for (int legal = 0, k = 0; legal < candidates && k < tries; ++k) {
      Choice choice;
      for (const auto size : sizes_) choice.push_back(random_() % size);
      for (const auto& [factor, value] : wanted) choice[factor] = value;
      if (!is_legal_(choice)) continue;
      ++legal;
      const auto all = combinations_of(choice);
      const auto met = static_cast<std::size_t>(
          std::count_if(all.begin(), all.end(), [&](const auto& combination) { return open_.contains(combination); }));
      if (met > most) {
        most = met;
        best = std::move(choice);
      }
    }
    return best;
  }

  const std::vector<std::size_t>& sizes_;
  const std::function<bool(const Choice&)>& is_legal_;
  std::vector<std::vector<std::size_t>> sets_;
  std::set<Combination> open_;
  std::mt19937 random_{20240611};
};

}  // namespace

std::vector<Choice> cover(const std::vector<std::size_t>& sizes, std::size_t strength,
                          const std::function<bool(const Choice&)>& is_legal) {
  return Cover(sizes, strength, is_legal).cases();
}

}  // namespace tessera::test

#include "base/nearest.h"
#include "plan/parallel_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace tessera::plan {
namespace {

// An entry of the plan that matched a parameter, and its extra parallel.
struct Match {
  std::string name;
  const PlanEntry* entry;
};

// Two patterns that match the same parameters.
struct Overlap {
  Match first;
  Match second;
  std::string fqn;     // the first such parameter
  int parameters = 1;  // the number of such parameters
};

class Assignment {
 public:
  Assignment(const ParallelPlan& plan, const std::vector<base::ParameterSpec>& parameters, base::Problems& problems)
      : plan_(plan), parameters_(parameters), problems_(problems) {}

  void add(const std::string& name) {
    const auto entries = plan_.patterns.find(name);
    if (entries == plan_.patterns.end()) {
      report_no_entry(name);
      return;
    }
    for (const PlanEntry& entry : entries->second)
      if (!add_matches({name, &entry})) report_no_match(name, entry);
  }

  [[nodiscard]] std::map<std::string, std::string> result() const {
    for (const Overlap& overlap : overlaps_)
      problems_.add("{}:{}: {} \"{}\" and {} \"{}\" (line {}) both match {}{}; keep one of them", plan_.source,
                    overlap.second.entry->line, overlap.second.name, overlap.second.entry->pattern, overlap.first.name,
                    overlap.first.entry->pattern, overlap.first.entry->line, overlap.fqn,
                    overlap.parameters == 1 ? "" : fmt::format(" and {} more", overlap.parameters - 1));
    std::map<std::string, std::string> names;
    for (const auto& [fqn, match] : matched_) names[fqn] = match.name;
    return names;
  }

 private:
  bool add_matches(const Match& match) {
    bool any = false;
    for (const base::ParameterSpec& parameter : parameters_) {
      if (!matches(match.entry->pattern, parameter.fqn)) continue;
      any = true;
      const auto [place, added] = matched_.emplace(parameter.fqn, match);
      if (!added) add_overlap(place->second, match, parameter.fqn);
    }
    return any;
  }

  void add_overlap(const Match& first, const Match& second, const std::string& fqn) {
    const auto known = std::find_if(overlaps_.begin(), overlaps_.end(), [&](const Overlap& overlap) {
      return overlap.first.entry == first.entry && overlap.second.entry == second.entry;
    });
    if (known == overlaps_.end())
      overlaps_.push_back({first, second, fqn});
    else
      ++known->parameters;
  }

  void report_no_entry(const std::string& name) {
    std::vector<std::string> known;
    for (const auto& [other, entries] : plan_.patterns) known.push_back(other);
    problems_.add("train.accelerator.extra_parallel_names: {} has no entry in {}, which has {}{}", name, plan_.source,
                  known.empty() ? "none" : fmt::format("{}", fmt::join(known, ", ")), base::did_you_mean(name, known));
  }

  void report_no_match(const std::string& name, const PlanEntry& entry) {
    std::vector<std::string> known;
    for (const base::ParameterSpec& parameter : parameters_) {
      std::string pattern = pattern_of(parameter.fqn);
      if (std::find(known.begin(), known.end(), pattern) == known.end()) known.push_back(std::move(pattern));
    }
    const std::string hint = base::did_you_mean(entry.pattern, known);
    problems_.add("{}:{}: {} \"{}\" matches no parameter of this model{}", plan_.source, entry.line, name,
                  entry.pattern, hint.empty() ? "; --dry-run lists the parameters" : hint);
  }

  const ParallelPlan& plan_;
  const std::vector<base::ParameterSpec>& parameters_;
  base::Problems& problems_;
  std::map<std::string, Match> matched_;
  std::vector<Overlap> overlaps_;
};

}  // namespace

std::map<std::string, std::string> assign(const ParallelPlan& plan, const std::vector<base::ParameterSpec>& parameters,
                                          const std::vector<std::string>& names, base::Problems& problems) {
  Assignment assignment(plan, parameters, problems);
  for (const std::string& name : names) assignment.add(name);
  return assignment.result();
}

}  // namespace tessera::plan

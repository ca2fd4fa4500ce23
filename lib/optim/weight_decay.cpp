#include "optim/weight_decay.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "base/nearest.h"
#include "base/quantity.h"
#include "plan/parallel_plan.h"

namespace tessera::optim {
namespace {

std::vector<std::string_view> components(std::string_view fqn) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t dot = fqn.find('.');
    parts.push_back(fqn.substr(0, dot));
    if (dot == std::string_view::npos) return parts;
    fqn.remove_prefix(dot + 1);
  }
}

bool is_named(const std::string& pattern, const std::string& fqn) {
  if (pattern.find('.') != std::string::npos) return plan::matches(pattern, fqn);
  return std::ranges::any_of(components(fqn), [&](std::string_view part) { return plan::matches(pattern, part); });
}

void report_unmatched(const std::string& pattern, const std::vector<base::ParameterSpec>& parameters,
                      base::Problems& problems) {
  std::vector<std::string> known;
  for (const base::ParameterSpec& parameter : parameters) {
    known.push_back(parameter.fqn);
    if (pattern.find('.') == std::string::npos)
      for (const std::string_view part : components(parameter.fqn)) known.emplace_back(part);
  }
  problems.add("train.optimizer.no_decay_params: \"{}\" matches no parameter{}", pattern,
               base::did_you_mean(pattern, known));
}

}  // namespace

std::string DecayGroups::describe(double weight_decay) const {
  return fmt::format("weight decay {} on {} parameters ({} elements), none on {} ({})", weight_decay,
                     decayed_parameters, base::format_count(decayed_elements), other_parameters,
                     base::format_count(other_elements));
}

DecayGroups group_by_decay(const std::vector<base::ParameterSpec>& parameters,
                           const std::vector<std::string>& no_decay_params, base::Problems& problems) {
  for (const std::string& pattern : no_decay_params)
    if (std::ranges::none_of(parameters, [&](const base::ParameterSpec& p) { return is_named(pattern, p.fqn); }))
      report_unmatched(pattern, parameters, problems);

  DecayGroups groups;
  for (const base::ParameterSpec& parameter : parameters) {
    const bool excluded =
        parameter.shape.size() < 2 || std::ranges::any_of(no_decay_params, [&](const std::string& pattern) {
          return is_named(pattern, parameter.fqn);
        });
    const bool added = groups.of.emplace(parameter.fqn, excluded ? WeightDecay::none : WeightDecay::applied).second;
    base::expect(added, "{} is in the list of parameters twice", parameter.fqn);
    (excluded ? groups.other_parameters : groups.decayed_parameters) += 1;
    (excluded ? groups.other_elements : groups.decayed_elements) += base::elements(parameter);
  }
  return groups;
}

}  // namespace tessera::optim

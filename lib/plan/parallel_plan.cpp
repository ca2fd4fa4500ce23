#include "plan/parallel_plan.h"

#include "base/json.h"
#include "base/nearest.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

namespace tessera::plan {
namespace {

using Json = nlohmann::json;

constexpr const char* plan_key = "extra_parallel_plan";

// Removes the first component from `rest` and returns it.
std::string_view next_component(std::string_view& rest) {
  const std::size_t dot = rest.find('.');
  const std::string_view component = rest.substr(0, dot);
  rest.remove_prefix(dot == std::string_view::npos ? rest.size() : dot + 1);
  return component;
}

// Matches one component; `*` stands for any characters. On a mismatch it goes back to the last star only, which is
// enough because an earlier star could not lead to more matches.
bool component_matches(std::string_view pattern, std::string_view name) {
  std::size_t p = 0;
  std::size_t n = 0;
  std::size_t star = std::string_view::npos;
  std::size_t star_took_to = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      star_took_to = n;
    } else if (p < pattern.size() && pattern[p] == name[n]) {
      ++p;
      ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++star_took_to;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

// Returns the fault of a pattern; empty: none.
std::string pattern_fault(const std::string& pattern) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
           c == '.' || c == '*';
  };
  if (pattern.empty()) return "the pattern is empty; name a parameter";
  if (!std::all_of(pattern.begin(), pattern.end(), allowed))
    return "a pattern has letters, digits, '_', '-', '.' between components, and '*'";
  if (pattern.find("**") != std::string::npos)
    return "'**' is not known: '*' stands for any characters within one component; write one '*' for each component";
  if (pattern.front() == '.' || pattern.back() == '.' || pattern.find("..") != std::string::npos)
    return "an empty component";
  return {};
}

std::string value_fault(const Json& value) {
  if (value == "Shard(0)") return {};
  if (value.is_string() && value.get<std::string>().starts_with("Shard("))
    return fmt::format(
        "{} is not possible: an extra parallel splits dim 0, and FSDP splits dim 1 of the same parameters; use "
        "\"Shard(0)\"",
        value.dump());
  constexpr std::size_t most = 40;
  std::string shown = value.dump(-1, ' ', true);
  if (shown.size() > most) shown = shown.substr(0, most) + "...";
  return fmt::format(
      "{} is not a placement; use \"Shard(0)\", or leave the parameter out: FSDP then shards it like any other", shown);
}

std::string unknown_key(const std::string& key) {
  if (key == "ep_plan") return "ep_plan is the older VeOmni spelling; use \"extra_parallel_plan\": {\"ep\": {...}}";
  if (key.ends_with("fsdp_no_shard_module") || key == "extra_parallel_persistent_modules")
    return fmt::format("{} is not needed: which parameters travel together follows from the plan; leave it out", key);
  const std::array<std::string, 1> known{plan_key};
  return fmt::format("unknown key \"{}\"; a plan has one key, {}{}", key, plan_key, base::did_you_mean(key, known));
}

std::vector<PlanEntry> parse_entries(const base::JsonDocument& document, const std::string& name, const Json& entries,
                                     base::Problems& problems) {
  const std::string pointer = fmt::format("/{}/{}", plan_key, base::escape_pointer(name));
  if (!entries.is_object() || entries.empty()) {
    problems.add("{}: \"{}\" needs an object with at least one pattern: {{\"<pattern>\": \"Shard(0)\"}}",
                 document.place_of(pointer), name);
    return {};
  }
  std::vector<PlanEntry> out;
  for (const auto& [pattern, value] : entries.items()) {
    const std::string at = pointer + "/" + base::escape_pointer(pattern);
    const std::string bad_pattern = pattern_fault(pattern);
    const std::string bad_value = value_fault(value);
    for (const std::string& fault : {bad_pattern, bad_value})
      if (!fault.empty()) problems.add("{}: {} \"{}\": {}", document.place_of(at), name, pattern, fault);
    if (bad_pattern.empty() && bad_value.empty()) out.push_back({pattern, document.line_of(at)});
  }
  std::stable_sort(out.begin(), out.end(), [](const PlanEntry& a, const PlanEntry& b) { return a.line < b.line; });
  return out;
}

std::optional<base::JsonDocument> parse_text(std::string_view text, const std::string& source,
                                             base::Problems& problems) {
  try {
    return base::parse_json(text, source, base::JsonComments::allowed);
  } catch (const base::Error& error) {
    problems.add(error.what());  // a syntax error is one problem among those of all inputs
    return std::nullopt;
  }
}

}  // namespace

ParallelPlan parse_plan(std::string_view text, const std::string& source, base::Problems& problems) {
  ParallelPlan plan;
  plan.source = source;
  const std::optional<base::JsonDocument> document = parse_text(text, source, problems);
  if (!document) return plan;
  const Json& root = document->value();
  if (!root.is_object() || root.empty()) {
    problems.add("{}: a plan is an object: {{\"{}\": {{\"<name>\": {{\"<pattern>\": \"Shard(0)\"}}}}}}",
                 document->place_of(""), plan_key);
    return plan;
  }
  for (const auto& [key, value] : root.items())
    if (key != plan_key) problems.add("{}: {}", document->place_of("/" + base::escape_pointer(key)), unknown_key(key));
  if (!root.contains(plan_key)) return plan;
  const Json& named = root.at(plan_key);
  if (!named.is_object()) {
    problems.add("{}: \"{}\" is an object: one entry for each extra parallel",
                 document->place_of(std::string("/") + plan_key), plan_key);
    return plan;
  }
  for (const auto& [name, entries] : named.items())
    plan.patterns[name] = parse_entries(*document, name, entries, problems);
  return plan;
}

bool matches(std::string_view pattern, std::string_view fqn) {
  while (!pattern.empty() && !fqn.empty())
    if (!component_matches(next_component(pattern), next_component(fqn))) return false;
  return pattern.empty() && fqn.empty();
}

std::string pattern_of(std::string_view fqn) {
  std::vector<std::string_view> components;
  while (!fqn.empty()) {
    const std::string_view component = next_component(fqn);
    const bool number = component.find_first_not_of("0123456789") == std::string_view::npos;
    components.push_back(number ? "*" : component);
  }
  return fmt::format("{}", fmt::join(components, "."));
}

}  // namespace tessera::plan

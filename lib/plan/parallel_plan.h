// Parallel plans: JSON that names, for each extra parallel, the parameters whose dim 0 it shards.
//
//   {"extra_parallel_plan": {"ep": {"model.layers.*.mlp.experts.gate_proj": "Shard(0)"}, "emb": {...}}}
//
// `*` matches within one name component. parallel_plans/README.md explains the grammar to users; CMake makes the
// built-in plan from parallel_plans/qwen3_moe.json at configure time.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/parameter_spec.h"

namespace tessera::plan {

struct PlanEntry {
  std::string pattern;
  int line = 0;  // in the plan file
  friend bool operator==(const PlanEntry&, const PlanEntry&) = default;
};

struct ParallelPlan {
  std::string source;                                      // the file's name, for messages
  std::map<std::string, std::vector<PlanEntry>> patterns;  // extra parallel -> patterns in file order
};

// Parses a plan from JSON text, which may have comments. Reports syntax errors, unknown keys, invalid patterns, values
// other than "Shard(0)" and duplicates, each as "source:line: reason".
[[nodiscard]] ParallelPlan parse_plan(std::string_view text, const std::string& source, base::Problems& problems);

// Returns the built-in plan for the model family.
[[nodiscard]] const ParallelPlan& built_in_plan();

// Returns whether `pattern` matches an FQN, component by component; `*` stands for any characters but '.', or none.
[[nodiscard]] bool matches(std::string_view pattern, std::string_view fqn);

// Maps the FQN of each parameter that one of the extra parallels `names` shards to that extra parallel. Reports
// patterns that match nothing (with the nearest name), parameters matched twice, and names without an entry in the
// plan. Ignores the plan's entries for other names.
[[nodiscard]] std::map<std::string, std::string> assign(const ParallelPlan& plan,
                                                        const std::vector<base::ParameterSpec>& parameters,
                                                        const std::vector<std::string>& names,
                                                        base::Problems& problems);

// Replaces components that are numbers by `*`: "model.layers.3.mlp.gate.weight" becomes
// "model.layers.*.mlp.gate.weight". Messages use it to name the parameters of all layers at once.
[[nodiscard]] std::string pattern_of(std::string_view fqn);

}  // namespace tessera::plan

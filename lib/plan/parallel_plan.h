// Parallel plans: JSON that names, for every extra parallel, the parameters whose dim 0 it shards.
//
//   {"extra_parallel_plan": {"ep": {"model.layers.*.mlp.experts.gate_proj": "Shard(0)"}, "emb": {...}}}
//
// `*` matches within one name component. The grammar for people is parallel_plans/README.md; the built-in plan is made
// at configure time from parallel_plans/qwen3_moe.json.
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
  std::string source;                                      // file name, for messages
  std::map<std::string, std::vector<PlanEntry>> patterns;  // extra parallel -> patterns in file order
};

// Parses plan text (JSON; comments allowed); syntax, unknown keys, values other than "Shard(0)" and duplicates are
// added to `problems`, each as "source:line: reason".
[[nodiscard]] ParallelPlan parse_plan(std::string_view text, const std::string& source, base::Problems& problems);

// The plan of the model family that is built in.
[[nodiscard]] const ParallelPlan& built_in_plan();

// `pattern` against an FQN, component by component; `*` stands for any characters (also none) but '.'.
[[nodiscard]] bool matches(std::string_view pattern, std::string_view fqn);

// FQN -> extra parallel, for the parameters that any of `names` shards. Problems: a pattern that matches nothing (with
// the nearest name), a parameter matched twice, a name without an entry. Entries of names not listed are left out.
[[nodiscard]] std::map<std::string, std::string> assign(const ParallelPlan& plan,
                                                        const std::vector<base::ParameterSpec>& parameters,
                                                        const std::vector<std::string>& names,
                                                        base::Problems& problems);

// "model.layers.*.mlp.gate.weight" of "model.layers.3.mlp.gate.weight": components that are numbers become `*`. One
// name for what all layers have in common, in messages.
[[nodiscard]] std::string pattern_of(std::string_view fqn);

}  // namespace tessera::plan

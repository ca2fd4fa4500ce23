// If this failed, the plan that is compiled in would differ from the file that users read and copy.
#include "base/file.h"
#include "plan/parallel_plan.h"
#include "support/catch.h"
#include "unit/plan/qwen3_moe_parameters.h"

#include <map>
#include <string>
#include <vector>

namespace tessera::plan {
namespace {

ParallelPlan ready_plan(const std::string& name) {
  const std::string path = std::string(TESSERA_SOURCE_DIR) + "/parallel_plans/" + name + ".json";
  base::Problems problems;
  ParallelPlan plan = parse_plan(base::read_file(path), path, problems);
  INFO(path);
  CHECK(problems.list() == std::vector<std::string>{});
  return plan;
}

TEST_CASE("the built-in plan is the file parallel_plans/qwen3_moe.json") {
  CHECK(built_in_plan().patterns == ready_plan("qwen3_moe").patterns);
  CHECK(built_in_plan().patterns.size() == 2);
}

TEST_CASE("every ready plan assigns what the built-in plan assigns under the same names") {
  const std::vector<std::pair<std::string, std::vector<std::string>>> ready{
      {"ep", {"ep"}}, {"emb", {"emb"}}, {"ep_emb", {"ep", "emb"}}};
  const std::vector<base::ParameterSpec> parameters = test::qwen3_moe_parameters({});
  for (const auto& [file, names] : ready) {
    const ParallelPlan plan = ready_plan(file);
    INFO(file);
    CHECK(plan.patterns.size() == names.size());
    base::Problems problems;
    CHECK(assign(plan, parameters, names, problems) == assign(built_in_plan(), parameters, names, problems));
    CHECK(problems.empty());
  }
}

}  // namespace
}  // namespace tessera::plan

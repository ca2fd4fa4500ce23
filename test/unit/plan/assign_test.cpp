// If this failed, a pattern that matches nothing would leave parameters unsharded without a word.
#include "plan/parallel_plan.h"

#include "support/catch.h"
#include "unit/plan/qwen3_moe_parameters.h"

#include <map>
#include <string>
#include <vector>

namespace tessera::plan {
namespace {

using test::qwen3_moe_parameters;
using test::Sizes;

struct Assigned {
  std::map<std::string, std::string> names;
  std::vector<std::string> problems;
};

Assigned assign_text(const std::string& text, const std::vector<std::string>& names) {
  base::Problems problems;
  const ParallelPlan plan = parse_plan(text, "plan.json", problems);
  std::map<std::string, std::string> result = assign(plan, qwen3_moe_parameters(Sizes{}), names, problems);
  return {std::move(result), problems.list()};
}

std::string plan_of(const std::string& entries) { return "{\"extra_parallel_plan\": {\n" + entries + "}}"; }

using Texts = std::vector<std::string>;
using Names = std::map<std::string, std::string>;

TEST_CASE("the built-in plan gives the experts to ep and the embedding to emb") {
  base::Problems problems;
  Names expected{{"model.embed_tokens.weight", "emb"}};
  for (const char* const layer : {"0", "1"})
    for (const char* const name : {"gate_proj", "up_proj", "down_proj"})
      expected[std::string("model.layers.") + layer + ".mlp.experts." + name] = "ep";
  CHECK(assign(built_in_plan(), qwen3_moe_parameters(Sizes{}), {"ep", "emb"}, problems) == expected);
  CHECK(problems.empty());
}

TEST_CASE("entries of names that are not in use assign nothing and need match nothing") {
  base::Problems problems;
  Sizes dense;
  dense.experts = 0;
  CHECK(assign(built_in_plan(), qwen3_moe_parameters(dense), {}, problems).empty());
  CHECK(assign(built_in_plan(), qwen3_moe_parameters(dense), {"emb"}, problems) ==
        Names{{"model.embed_tokens.weight", "emb"}});
  CHECK(problems.empty());
}

TEST_CASE("experts that the model does not have are refused when their name is in use") {
  base::Problems problems;
  Sizes dense;
  dense.experts = 0;
  (void)assign(built_in_plan(), qwen3_moe_parameters(dense), {"ep"}, problems);
  CHECK(problems.list().size() == 3);
}

TEST_CASE("a mistyped pattern is refused with its line and the nearest name") {
  CHECK(assign_text(plan_of("\"ep\": {\"model.layers.*.mlp.expert.gate_proj\": \"Shard(0)\"}"), {"ep"}).problems ==
        Texts{"plan.json:2: ep \"model.layers.*.mlp.expert.gate_proj\" matches no parameter of this model; did you "
              "mean model.layers.*.mlp.experts.gate_proj?"});
  CHECK(assign_text(plan_of("\"ep\": {\"embed_tokens.weight\": \"Shard(0)\"}"), {"ep"}).problems ==
        Texts{"plan.json:2: ep \"embed_tokens.weight\" matches no parameter of this model; did you mean "
              "model.embed_tokens.weight?"});
  CHECK(assign_text(plan_of("\"ep\": {\"model.layers.7.mlp.experts.gate_proj\": \"Shard(0)\"}"), {"ep"}).problems ==
        Texts{"plan.json:2: ep \"model.layers.7.mlp.experts.gate_proj\" matches no parameter of this model; did you "
              "mean model.layers.*.mlp.experts.gate_proj?"});
}

TEST_CASE("a parameter matched by two patterns is refused once for all layers, naming both") {
  const Assigned same = assign_text(plan_of("\"ep\": {\"model.layers.*.mlp.experts.up_proj\": "
                                            "\"Shard(0)\",\n\"model.layers.*.mlp.experts.*\": \"Shard(0)\"}"),
                                    {"ep"});
  CHECK(same.problems ==
        Texts{"plan.json:3: ep \"model.layers.*.mlp.experts.*\" and ep \"model.layers.*.mlp.experts.up_proj\" (line 2) "
              "both match model.layers.0.mlp.experts.up_proj and 1 more; keep one of them"});
  const std::string two = plan_of(
      "\"ep\": {\"model.embed_tokens.weight\": \"Shard(0)\"},\n\"emb\": {\"model.embed_tokens.*\": \"Shard(0)\"}");
  CHECK(assign_text(two, {"ep", "emb"}).problems ==
        Texts{"plan.json:3: emb \"model.embed_tokens.*\" and ep \"model.embed_tokens.weight\" (line 2) both match "
              "model.embed_tokens.weight; keep one of them"});
  CHECK(assign_text(two, {"emb"}).problems.empty());
}

TEST_CASE("a name without an entry is refused with those that have one") {
  const std::string text = plan_of("\"emb\": {\"model.embed_tokens.weight\": \"Shard(0)\"}");
  CHECK(
      assign_text(text, {"emd"}).problems ==
      Texts{"train.accelerator.extra_parallel_names: emd has no entry in plan.json, which has emb; did you mean emb?"});
  CHECK(assign_text(plan_of(""), {"ep"}).problems ==
        Texts{"train.accelerator.extra_parallel_names: ep has no entry in plan.json, which has none"});
}

TEST_CASE("patterns under two parent modules are both applied") {
  const Assigned both = assign_text(plan_of("\"mine\": {\"model.layers.*.self_attn.o_proj.weight\": \"Shard(0)\",\n"
                                            "\"lm_head.weight\": \"Shard(0)\"}"),
                                    {"mine"});
  CHECK(both.problems.empty());
  CHECK(both.names == Names{{"lm_head.weight", "mine"},
                            {"model.layers.0.self_attn.o_proj.weight", "mine"},
                            {"model.layers.1.self_attn.o_proj.weight", "mine"}});
}

TEST_CASE("a layer number matches that layer only") {
  const Assigned one =
      assign_text(plan_of("\"mine\": {\"model.layers.1.mlp.experts.up_proj\": \"Shard(0)\"}"), {"mine"});
  CHECK(one.problems.empty());
  CHECK(one.names == Names{{"model.layers.1.mlp.experts.up_proj", "mine"}});
}

}  // namespace
}  // namespace tessera::plan

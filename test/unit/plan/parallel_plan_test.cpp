// If this failed, a mistyped plan would be trained with another sharding than meant, or crash the program.
#include "plan/parallel_plan.h"

#include "support/catch.h"

#include <string>
#include <vector>

namespace tessera::plan {
namespace {

struct Parsed {
  ParallelPlan plan;
  std::vector<std::string> problems;
};

Parsed parse(const std::string& text) {
  base::Problems problems;
  ParallelPlan plan = parse_plan(text, "plan.json", problems);
  return {std::move(plan), problems.list()};
}

// A plan with these lines inside the entry "ep", which begin on line 3.
Parsed parse_ep(const std::string& lines) { return parse("{\"extra_parallel_plan\":\n {\"ep\": {\n" + lines + "}}}"); }

using Texts = std::vector<std::string>;

TEST_CASE("a plan gives the patterns of each extra parallel, in file order, with their lines") {
  const Parsed parsed = parse(R"json({
  // comments are allowed
  "extra_parallel_plan": {
    "ep": {
      "b.up": "Shard(0)",
      "a.gate": "Shard(0)"
    },
    "mine": {"model.layers.*.self_attn.o_proj.weight": "Shard(0)"}
  }
})json");
  CHECK(parsed.problems.empty());
  CHECK(parsed.plan.source == "plan.json");
  REQUIRE(parsed.plan.patterns.size() == 2);
  CHECK(parsed.plan.patterns.at("ep") == std::vector<PlanEntry>{{"b.up", 5}, {"a.gate", 6}});
  CHECK(parsed.plan.patterns.at("mine") == std::vector<PlanEntry>{{"model.layers.*.self_attn.o_proj.weight", 8}});
}

TEST_CASE("a plan may name no extra parallel at all") {
  const Parsed parsed = parse(R"json({"extra_parallel_plan": {}})json");
  CHECK(parsed.problems.empty());
  CHECK(parsed.plan.patterns.empty());
}

TEST_CASE("a syntax error is told with its line") {
  const Parsed parsed = parse("{\n\"extra_parallel_plan\": {\"ep\": {\"a.b\": \"Shard(0)\",}}}");
  REQUIRE(parsed.problems.size() == 1);
  CHECK(parsed.problems[0].starts_with("plan.json:2: "));
  CHECK(parsed.problems[0].find("trailing comma") != std::string::npos);
}

TEST_CASE("a pattern that a plan lists twice is refused by name") {
  const Parsed parsed = parse_ep("\"a.b\": \"Shard(0)\",\n\"a.b\": \"Shard(0)\"");
  REQUIRE(parsed.problems.size() == 1);
  CHECK(parsed.problems[0].starts_with("plan.json:4: "));
  CHECK(parsed.problems[0].find("a.b") != std::string::npos);
}

TEST_CASE("only dim 0 can be given to an extra parallel") {
  CHECK(parse_ep("\"a.b\": \"Shard(1)\"").problems ==
        Texts{"plan.json:3: ep \"a.b\": \"Shard(1)\" is not possible: an extra parallel splits dim 0, and FSDP splits "
              "dim 1 of the same parameters; use \"Shard(0)\""});
}

TEST_CASE("values that are no placement are refused with the two ways out") {
  for (const char* const value : {"\"Replicate()\"", "0", "null", "{\"dim\": 0}", "\"shard(0)\"", "[\"Shard(0)\"]"}) {
    const Parsed parsed = parse_ep(std::string("\"a.b\": ") + value);
    INFO(value);
    REQUIRE(parsed.problems.size() == 1);
    CHECK(parsed.problems[0].find("is not a placement; use \"Shard(0)\", or leave the parameter out") !=
          std::string::npos);
    CHECK(parsed.plan.patterns.at("ep").empty());
  }
}

TEST_CASE("a key beside the plan is refused with the nearest name") {
  CHECK(parse(R"json({"extra_paralel_plan": {}})json").problems ==
        Texts{"plan.json:1: unknown key \"extra_paralel_plan\"; a plan has one key, extra_parallel_plan; did you mean "
              "extra_parallel_plan?"});
  CHECK(parse(R"json({"ep_plan": {}})json").problems.size() == 1);
  CHECK(parse(R"json({"extra_parallel_plan": {}, "fsdp_no_shard_module": []})json").problems ==
        Texts{"plan.json:1: fsdp_no_shard_module is not needed: which parameters travel together follows from the "
              "plan; leave it out"});
  CHECK(parse(R"json({"extra_parallel_plan": {}, "extra_parallel_persistent_modules": {}})json").problems.size() == 1);
}

TEST_CASE("a plan of another shape is refused, saying which shape it has") {
  for (const char* const text :
       {"[]", "3", "{}", R"json({"extra_parallel_plan": []})json", R"json({"extra_parallel_plan": {"ep": []}})json",
        R"json({"extra_parallel_plan": {"ep": {}}})json", R"json({"extra_parallel_plan": {"ep": "Shard(0)"}})json"}) {
    INFO(text);
    CHECK(parse(text).problems.size() == 1);
  }
}

TEST_CASE("a pattern that could match no name is refused at its line") {
  for (const char* const pattern : {"", ".a", "a.", "a..b", "a.**.b", "a[0].b", "a b", "a.?"}) {
    INFO(pattern);
    const Parsed parsed = parse_ep(std::string("\"") + pattern + "\": \"Shard(0)\"");
    REQUIRE(parsed.problems.size() == 1);
    CHECK(parsed.problems[0].starts_with("plan.json:3: ep"));
  }
}

TEST_CASE("all problems of a plan are told at once") {
  CHECK(parse_ep("\"a.b\": \"Shard(1)\",\n\"c..d\": 0").problems.size() == 3);
}

TEST_CASE("a star stands for one component, or a part of one, and never crosses a dot") {
  CHECK(matches("model.layers.*.mlp.experts.gate_proj", "model.layers.10.mlp.experts.gate_proj"));
  CHECK_FALSE(matches("model.layers.1.mlp.gate.weight", "model.layers.10.mlp.gate.weight"));
  CHECK_FALSE(matches("model.layers.1", "model.layers.1.mlp"));
  CHECK_FALSE(matches("model.*", "model.layers.1"));
  CHECK_FALSE(matches("*", "model.layers"));
  CHECK_FALSE(matches("model.layers.*.weight", "model.layers.weight"));
  CHECK(matches("model.layers.1*.mlp", "model.layers.1.mlp"));
  CHECK(matches("model.layers.1*.mlp", "model.layers.17.mlp"));
  CHECK(matches("a.*_proj", "a.up_proj"));
  CHECK(matches("a.*p*r*", "a.up_proj"));
  CHECK_FALSE(matches("a.*p*r*x", "a.up_proj"));
  CHECK(matches("*.*", "a.b"));
  CHECK_FALSE(matches("a", "b"));
}

TEST_CASE("many stars in a long component are matched in reasonable time") {
  const std::string name(2000, 'a');
  std::string pattern;
  for (int i = 0; i < 200; ++i) pattern += "a*";
  CHECK(matches(pattern, name));
  CHECK_FALSE(matches(pattern + "b", name));
}

TEST_CASE("the pattern of a name has a star for each number") {
  CHECK(pattern_of("model.layers.31.mlp.experts.4.w1.weight") == "model.layers.*.mlp.experts.*.w1.weight");
  CHECK(pattern_of("lm_head.weight") == "lm_head.weight");
}

}  // namespace
}  // namespace tessera::plan

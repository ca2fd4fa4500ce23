// If this failed, weight decay would apply to norms and biases, or a parameter would not be trained at all.
#include "optim/weight_decay.h"

#include <string>
#include <vector>

#include "support/catch.h"

namespace tessera::optim {
namespace {

using Catch::Matchers::Contains;
using Patterns = std::vector<std::string>;

const std::vector<base::ParameterSpec> parameters{{"model.embed_tokens.weight", {11, 6}},
                                                  {"model.layers.0.input_layernorm.weight", {6}},
                                                  {"model.layers.0.self_attn.q_proj.weight", {8, 6}},
                                                  {"model.layers.0.self_attn.q_proj.bias", {8}},
                                                  {"model.layers.0.mlp.gate.weight", {3, 6}},
                                                  {"model.layers.0.mlp.experts.gate_proj", {3, 5, 6}},
                                                  {"model.layers.10.mlp.gate.weight", {3, 6}},
                                                  {"model.norm.weight", {6}}};

DecayGroups grouped(const Patterns& patterns) {
  base::Problems problems;
  DecayGroups groups = group_by_decay(parameters, patterns, problems);
  problems.throw_if_any("test");
  return groups;
}

TEST_CASE("matrices decay, norms and biases do not, and every parameter is in a group") {
  const DecayGroups groups = grouped({});
  CHECK(groups.of.size() == parameters.size());
  for (const base::ParameterSpec& parameter : parameters)
    CHECK(groups.of.at(parameter.fqn) == (parameter.shape.size() > 1 ? WeightDecay::applied : WeightDecay::none));
  CHECK(groups.decayed_parameters == 5);
  CHECK(groups.other_parameters == 3);
  CHECK(groups.decayed_elements == 66 + 48 + 18 + 90 + 18);
  CHECK(groups.other_elements == 6 + 8 + 6);
  CHECK(groups.describe(0.1) == "weight decay 0.1 on 5 parameters (240 elements), none on 3 (20)");
}

TEST_CASE("a pattern takes its parameters out of the decay") {
  const DecayGroups one = grouped({"model.layers.1*.mlp.gate.weight"});
  CHECK(one.of.at("model.layers.10.mlp.gate.weight") == WeightDecay::none);
  CHECK(one.of.at("model.layers.0.mlp.gate.weight") == WeightDecay::applied);
  const DecayGroups component = grouped({"embed_tokens", "bias", "gate"});
  CHECK(component.of.at("model.embed_tokens.weight") == WeightDecay::none);
  CHECK(component.of.at("model.layers.10.mlp.gate.weight") == WeightDecay::none);
  CHECK(component.of.at("model.layers.0.mlp.experts.gate_proj") == WeightDecay::applied);
}

TEST_CASE("every pattern that matches nothing is a problem with the nearest name") {
  base::Problems problems;
  static_cast<void>(group_by_decay(parameters, {"embed_token", "model.layers.*.weight", "norm"}, problems));
  REQUIRE(problems.list().size() == 2);
  CHECK_THAT(problems.list()[0],
             Contains("no_decay_params: \"embed_token\" matches no parameter; did you mean embed_tokens?"));
  CHECK_THAT(problems.list()[1], Contains("model.layers.*.weight"));
}

}  // namespace
}  // namespace tessera::optim

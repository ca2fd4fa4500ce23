// If this failed, a router that sends every token to one expert would change the list of instructions, or lose tokens.
#include <cmath>

#include "support/catch.h"
#include "support/small_run.h"

namespace tessera::test {
namespace {

bool is_router(const std::string& name) { return name.ends_with("mlp.gate.weight"); }
bool is_experts(const std::string& name) { return name.find(".mlp.experts.") != std::string::npos; }

const Words exact_routing{"--train.precision",           "float64", "--train.micro_batch_size",     "2",
                          "--model.num_experts_per_tok", "1",       "--model.router_aux_loss_coef", "0"};

Words exact_with(const Words& more) {
  auto words = exact_routing;
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

// Of equal probabilities the lowest expert's is chosen.
void send_all_to_the_first(train::Assembly& assembly) {
  for (auto& p : assembly.store().parameters())
    if (is_router(p.placement.parameter.fqn)) p.master.zero_();
}

TEST_CASE("with all tokens sent to one expert of five the model computes as one of that expert alone") {
  const SmallRun files;
  for (const Words& mode :
       {Words{}, Words{"--train.gradient_checkpointing.enable", "true"}, Words{"--train.debug.poison_freed", "true"}}) {
    INFO((mode.empty() ? "default" : mode.front()));
    Start five(files.settings(exact_with(mode)));
    Start alone(files.settings(exact_with({"--model.num_experts", "1"})));
    send_all_to_the_first(five.assembly());
    send_all_to_the_first(alone.assembly());
    for (auto& p : alone.assembly().store().parameters()) {
      const auto& name = p.placement.parameter.fqn;
      const auto& master = five.assembly().store().parameter(name).master;
      if (!is_router(name)) p.master.copy_(is_experts(name) ? master.narrow(0, 0, 1) : master);
    }
    const auto step = five.steps(1).front();
    const auto skewed = gradients(five.assembly(), step);
    const auto expected = gradients(alone.assembly(), step);
    const auto tokens = skewed.result.tokens;
    CHECK(tokens == 4 * 13);
    CHECK(skewed.result.expert_load ==
          std::vector<std::vector<std::int64_t>>{{tokens, 0, 0, 0, 0}, {tokens, 0, 0, 0, 0}});
    CHECK(std::abs(skewed.result.cross_entropy - expected.result.cross_entropy) <=
          1e-14 * expected.result.cross_entropy);
    TensorsByName used;
    for (const auto& [name, gradient] : skewed.of) {
      INFO(name);
      if (is_router(name)) {  // the weight of the only choice is 1 whatever the router says
        CHECK(gradient.abs().max().item<double>() == 0);
        continue;
      }
      if (is_experts(name)) CHECK(gradient.narrow(0, 1, 4).abs().max().item<double>() == 0);
      used[name] = is_experts(name) ? gradient.narrow(0, 0, 1) : gradient;
    }
    auto of_alone = expected.of;
    std::erase_if(of_alone, [](const auto& entry) { return is_router(entry.first); });
    CHECK(largest_deviation(used, of_alone) <= 1e-12);
  }
}

TEST_CASE("whatever the routing, a step executes the same instructions") {
  const SmallRun files;
  Start start(files.settings(exact_routing));
  const auto step = start.steps(1).front();
  const auto usual = gradients(start.assembly(), step);
  const auto executed = start.assembly().executor().executed();
  CHECK(executed.size() > 20);
  send_all_to_the_first(start.assembly());
  const auto skewed = gradients(start.assembly(), step);
  CHECK(skewed.result.expert_load != usual.result.expert_load);
  CHECK(start.assembly().executor().executed() == executed);
}

}  // namespace
}  // namespace tessera::test

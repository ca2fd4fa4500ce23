// If this failed, ranks would count a token's slots twice or not at all, or several ranks would compute another balance
// loss than one.
#include <ATen/ops/softmax.h>
#include <ATen/ops/topk.h>
#include <ATen/ops/zeros.h>

#include <cmath>

#include "gathered.h"
#include "support/catch.h"
#include "support/composed_model.h"
#include "support/ranks.h"

namespace tessera::test {
namespace {

using architecture::ValueKind;

constexpr std::int64_t moe_layers = 2, routed_experts = 5, top_k = 2;

std::vector<Words> layouts() {
  if (world().size() == 2) return {groups({{"ep", 2}}), groups({{"ep", 2}, {"emb", 2}})};
  return {groups({{"ep", 2}}), groups({{"ep", 4}}),
          joined(groups({{"ep", 2}}), {"--train.accelerator.dp_replicate_size", "2"})};
}

// What one pass over all tokens of a micro-step says about the routing of each MoE layer.
struct Routing {
  std::vector<std::vector<std::int64_t>> slots;  // [layer][expert]
  at::Tensor probability;                        // [layers, experts], mean over the tokens
};

// From the inputs of the routers alone: softmax and top-k as ATen has them.
Routing routing_of(const ComposedModel& model) {
  Routing routing{{}, at::zeros({moe_layers, routed_experts}, at::kDouble)};
  for (std::int32_t layer = 1; layer <= moe_layers; ++layer) {
    const auto& router = model.parameter(architecture::layer_fqn(layer, "mlp.gate.weight"));
    const auto probability = at::softmax(model.value(ValueKind::normed, layer).matmul(router.t()), -1);
    routing.probability.select(0, layer - 1).copy_(probability.mean(0));
    auto& slots = routing.slots.emplace_back(routed_experts);
    const auto chosen = std::get<1>(at::topk(probability, top_k)).flatten();
    for (std::int64_t k = 0; k < chosen.numel(); ++k) ++slots[static_cast<std::size_t>(chosen[k].item<std::int64_t>())];
  }
  return routing;
}

// E * sum_e f_e p_e with f and p pooled over layers, or the mean over layers of each layer's.
double balance(const Routing& routing, std::int64_t tokens, const std::string& kind) {
  const auto mean = routing.probability.mean(0);
  double sum = 0;
  for (std::int64_t e = 0; e < routed_experts; ++e)
    for (std::int64_t layer = 0; layer < moe_layers; ++layer) {
      const auto count = routing.slots[static_cast<std::size_t>(layer)][static_cast<std::size_t>(e)];
      const auto f = static_cast<double>(count) / static_cast<double>(tokens * moe_layers);
      sum += f * (kind == "pooled" ? mean : routing.probability.select(0, layer))[e].item<double>();
    }
  return routed_experts * sum;
}

TEST_CASE("slots of the experts and the balance loss are those of one pass over the whole batch") {
  const SmallRun files;
  for (const auto& words : layouts())
    for (const std::string kind : {"pooled", "per_layer"}) {
      CAPTURE(words, kind);
      const Words numbers{"--train.precision",         "float64", "--model.balance_loss", kind,
                          "--train.global_batch_size", "12"};
      Start alone(files.settings(joined(numbers, {"--train.micro_batch_size", "12"})));
      Start start(files.settings(joined(joined(numbers, words),
                                        {"--train.micro_batch_size", std::to_string(12 / world().size())})),
                  world().communicator());
      auto& assembly = start.assembly();
      ComposedModel model(alone.assembly().blueprint().architecture, assembly.blueprint().numbers);
      const auto steps = start.steps(3), whole_steps = alone.steps(3);
      for (std::size_t k = 0; k < steps.size(); ++k) {
        for (const auto& [fqn, master] : gathered_masters(assembly)) model.parameter(fqn).copy_(master);
        const auto& batch = whole_steps[k].inputs.batches.at(0);
        model.evaluate(batch_of(batch), {});
        const auto routing = routing_of(model);
        const auto tokens = batch.at({ValueKind::ids, -1}).numel();

        const auto result = train_step(assembly, steps[k]);
        CHECK(result.tokens == tokens);
        CHECK(result.expert_load == routing.slots);
        const auto expected = balance(routing, tokens, kind);
        CHECK(std::abs(result.balance_loss - expected) <= 1e-12 * expected);
      }
    }
}

TEST_CASE("every token has its slots once in every layer, over several micro-steps and ranks without sequences") {
  const SmallRun files;
  for (const auto& words : layouts())
    for (const std::string sequences : {"1", "9", "12"}) {
      CAPTURE(words, sequences);
      Start start(files.settings(joined(words, {"--train.global_batch_size", sequences})), world().communicator());
      for (const auto& step : start.steps(3)) {
        const auto result = train_step(start.assembly(), step);
        CHECK(result.tokens == 13 * step.windows);
        REQUIRE(std::ssize(result.expert_load) == moe_layers);
        for (const auto& load : result.expert_load) {
          std::int64_t slots = 0;
          for (const auto count : load) slots += count;
          CHECK(std::ssize(load) == routed_experts);
          CHECK(slots == result.tokens * top_k);
        }
      }
    }
}

TEST_CASE("the loss of a batch that is trained on again and again goes down") {
  const SmallRun files;
  for (const auto& words : layouts()) {
    CAPTURE(words);
    Start start(files.settings(joined(words, {"--train.global_batch_size", "8"})), world().communicator());
    const auto step = start.steps(1).front();
    std::vector<double> losses;
    for (int k = 0; k < 12; ++k) losses.push_back(train_step(start.assembly(), step).cross_entropy);
    CAPTURE(losses);
    CHECK(losses[5] < 0.9 * losses[0]);
    CHECK(losses[11] < 0.8 * losses[5]);
  }
}

}  // namespace
}  // namespace tessera::test

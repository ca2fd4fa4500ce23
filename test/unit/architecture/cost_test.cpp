// If this failed, the reported FLOP rates and memory plans would be wrong by factors.
#include "architecture/architecture.h"

#include "support/about.h"
#include "support/catch.h"
#include "support/example_config.h"

namespace tessera::architecture {
namespace {

double forward_flops(const Architecture& architecture, std::int64_t tokens, std::int64_t sequences) {
  double sum = 0;
  for (const Step& step : architecture.steps())
    sum += architecture.cost(step, {.tokens = tokens, .sequences = sequences}).forward_flops;
  return sum;
}

TEST_CASE("forward work is 2 multiply-adds per token and active weight, and attention over what each token sees") {
  const ModelConfig config = test::example_config();
  const Architecture architecture(config, config::BalanceLoss::pooled);
  constexpr std::int64_t tokens = 26, sequences = 2, length = 13;
  // Weights that products use: all active ones but the embedding, norms aside.
  std::int64_t norms = 0;
  for (const base::ParameterSpec& parameter : architecture.parameters())
    if (parameter.shape.size() == 1) norms += elements(parameter);
  const std::int64_t weights = architecture.active_parameters() - norms - config.vocab_size * config.hidden_size;
  // Token i of a sequence sees i + 1 tokens; scores and values: 2 products of head_dim for each head.
  const double seen = static_cast<double>(sequences * length * (length + 1)) / 2;
  const double attention = 4 * seen * static_cast<double>(config.num_attention_heads * config.head_dim);
  CHECK(forward_flops(architecture, tokens, sequences) ==
        test::about(2.0 * tokens * static_cast<double>(weights) + 3 * attention).epsilon(1e-12));
}

TEST_CASE(
    "backward takes the forward's work for the inputs and again for the weights, attention twice for the inputs") {
  const Architecture architecture(test::example_config(), config::BalanceLoss::pooled);
  for (const Step& step : architecture.steps()) {
    INFO(step.name());
    const StepCost cost = architecture.cost(step, {.tokens = 26, .sequences = 2});
    const bool has_weights = step.kind != "attend";
    CHECK(cost.backward_input_flops == (has_weights ? 1 : 2) * cost.forward_flops);
    CHECK(cost.backward_weight_flops == (has_weights ? cost.forward_flops : 0));
  }
}

TEST_CASE("no tokens cost nothing") {
  const Architecture architecture(test::example_config(), config::BalanceLoss::pooled);
  for (const Step& step : architecture.steps()) {
    CHECK(architecture.cost(step, {}).forward_flops == 0);
    CHECK(architecture.cost(step, {}).kept_bytes == 0);
  }
}

TEST_CASE("bytes of values follow their shapes") {
  const ModelConfig config = test::example_config();
  CHECK(value_bytes(ValueKind::hidden, config, {.tokens = 13, .sequences = 1}, 2) == 13 * 15 * 2);
  CHECK(value_bytes(ValueKind::query, config, {.tokens = 13, .sequences = 1}, 4) == 13 * 6 * 4 * 4);
  CHECK(value_bytes(ValueKind::key, config, {.tokens = 13, .sequences = 1}, 4) == 13 * 3 * 4 * 4);
  CHECK(value_bytes(ValueKind::slot_token, config, {.tokens = 13, .sequences = 1}, 4) == 13 * 3 * 8);
  CHECK(value_bytes(ValueKind::slot_weight, config, {.tokens = 13, .sequences = 1}, 4) == 13 * 3 * 4);
  CHECK(value_bytes(ValueKind::router_count, config, {.tokens = 13, .sequences = 5}, 4) == 5 * 7 * 8);
  CHECK(value_bytes(ValueKind::slot_weight, config, {.tokens = 13, .sequences = 1}, 2) == 13 * 3 * 4);  // wide
  CHECK(value_bytes(ValueKind::rotary_sine, config, {.tokens = 13, .sequences = 1}, 2) == 13 * 2 * 4);
  CHECK(value_bytes(ValueKind::unique_ids, config, {.tokens = 1000, .sequences = 1}, 4) == 31 * 8);
}

TEST_CASE("a token sends a row to each owner of its experts, as many as are expected of a router without preferences") {
  ModelConfig config = test::example_config();
  config.num_experts = 128;
  config.num_experts_per_tok = 8;
  CHECK(rows_per_token(config, 1) == 1);
  CHECK(rows_per_token(config, 8) == test::about(5.33936).epsilon(1e-6));
  CHECK(rows_per_token(config, 128) == test::about(8).epsilon(1e-12));  // each expert has an owner of its own
  config.num_experts = 4;
  config.num_experts_per_tok = 2;
  CHECK(rows_per_token(config, 2) == test::about(2 - 2.0 / 6).epsilon(1e-12));  // 2 of 6 pairs have one owner
  const double rows = value_bytes(ValueKind::send_rows, config, {.tokens = 13, .sequences = 1, .owners = 2}, 4);
  CHECK(rows == test::about(13 * (2 - 2.0 / 6) * 15 * 4).epsilon(1e-12));
}

TEST_CASE("an exchange costs no work and delivers what it moves") {
  const ModelConfig config = test::example_config();
  const Architecture architecture(config, config::BalanceLoss::pooled);
  for (const Step& step : architecture.steps()) {
    if (step.name() != "dispatch[1]") continue;
    const StepCost cost = architecture.cost(step, {.tokens = 13});
    CHECK(cost.forward_flops == 0);
    CHECK(cost.written_bytes == (13 * 15 + 13 * 3) * 4);  // rows and slot weights
  }
}

}  // namespace
}  // namespace tessera::architecture

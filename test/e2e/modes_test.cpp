// If this failed, a memory mode (recomputation, ZeRO level, prefetch, copies instead of bindings) would change
// gradients.
#include <fmt/format.h>

#include "support/catch.h"
#include "support/small_run.h"

namespace tessera::test {
namespace {

const Words reference{"--train.precision", "float64",  "--train.micro_batch_size",   "2",
                      "--data.documents",  "separate", "--model.router_z_loss_coef", "0.01"};

Gradients gradients_with(const SmallRun& files, const Words& more) {
  auto words = reference;
  words.insert(words.end(), more.begin(), more.end());
  return first_gradients(files.settings(words));
}

void check_equal(const Gradients& gradients, const Gradients& expected) {
  CHECK(gradients.result.outcome == executor::Outcome::done);
  CHECK(gradients.result.cross_entropy == expected.result.cross_entropy);
  CHECK(gradients.result.balance_loss == expected.result.balance_loss);
  CHECK(gradients.result.z_loss == expected.result.z_loss);
  CHECK(gradients.result.expert_load == expected.result.expert_load);
  CHECK(std::abs(gradients.result.grad_norm - expected.result.grad_norm) <= 1e-12 * expected.result.grad_norm);
  CHECK(largest_deviation(gradients.of, expected.of) <= 1e-12);
}

const std::vector<Words>& recomputations() {
  static const std::vector<Words> all{
      {},
      {"--train.gradient_checkpointing.enable", "true"},
      {"--train.gradient_checkpointing.enable", "true", "--train.gradient_checkpointing.scope", "experts"}};
  return all;
}

TEST_CASE("every gradient is there and differs from zero") {
  const SmallRun files;
  const auto expected = gradients_with(files, {});
  CHECK(expected.of.size() == 3 + 3 * 8 + 3 + 2 * 4);
  for (const auto& [name, gradient] : expected.of) {
    INFO(name);
    CHECK(gradient.abs().max().item<double>() > 0);
  }
}

TEST_CASE("recomputation gives equal gradients, bound or copied and poisoned") {
  const SmallRun files;
  for (const char* tied : {"false", "true"}) {
    const auto expected = gradients_with(files, {"--model.tie_word_embeddings", tied});
    for (const auto& recompute : recomputations()) {
      for (const char* poison : {"false", "true"}) {
        Words words{"--model.tie_word_embeddings", tied, "--train.debug.poison_freed", poison};
        words.insert(words.end(), recompute.begin(), recompute.end());
        INFO(fmt::format("tied {}, poison {}, {}", tied, poison, recompute.empty() ? "none" : recompute.back()));
        check_equal(gradients_with(files, words), expected);
      }
    }
  }
}

TEST_CASE("every preset gives equal gradients over two micro-steps, bound or copied and poisoned") {
  const SmallRun files;
  const auto expected = gradients_with(files, {});
  for (const char* mode : {"fsdp2", "zero3", "zero2", "zero1", "ddp"}) {
    for (const char* poison : {"false", "true"}) {
      INFO(mode << ", poison " << poison);
      check_equal(gradients_with(
                      files, {"--train.accelerator.fsdp_config.fsdp_mode", mode, "--train.debug.poison_freed", poison}),
                  expected);
    }
  }
}

TEST_CASE("keeping units gathered and any prefetch depth give equal gradients") {
  const SmallRun files;
  const auto expected = gradients_with(files, {});
  for (const char* reshard : {"true", "false"}) {
    for (const char* depth : {"0", "1", "2", "3"}) {
      INFO("reshard_after_forward " << reshard << ", prefetch_depth " << depth);
      check_equal(gradients_with(files, {"--train.debug.poison_freed", "true",
                                         "--train.accelerator.fsdp_config.reshard_after_forward", reshard,
                                         "--train.accelerator.fsdp_config.prefetch_depth", depth}),
                  expected);
    }
  }
}

TEST_CASE("bfloat16 with float32 masters has the same gradients in every recomputation, copied and poisoned") {
  const SmallRun files;
  const Words narrow{"--train.precision", "bfloat16"};
  const auto expected = gradients_with(files, narrow);
  for (const auto& recompute : recomputations()) {
    auto words = narrow;
    words.insert(words.end(), recompute.begin(), recompute.end());
    words.insert(words.end(), {"--train.debug.poison_freed", "true"});
    INFO((recompute.empty() ? "none" : recompute.back()));
    const auto gradients = gradients_with(files, words);
    CHECK(largest_deviation(gradients.of, expected.of) <= 1e-6);
  }
}

TEST_CASE("recomputation counts nothing twice, over a whole run") {
  const SmallRun files;
  const Words words{"--train.moe_load_balance_monitor_interval",
                    "1",
                    "--train.precision",
                    "float64",
                    "--train.micro_batch_size",
                    "3"};
  const auto expected = run_training(files.settings(words));
  for (const auto& recompute : recomputations()) {
    auto more = words;
    more.insert(more.end(), recompute.begin(), recompute.end());
    INFO((recompute.empty() ? "none" : recompute.back()));
    const auto trained = run_training(files.settings(more));
    for (const char* key : {"loss", "aux_loss", "z_loss", "grad_norm"})
      CHECK(trained.column(key) == expected.column(key));
    REQUIRE(trained.metrics.size() == expected.metrics.size());
    for (std::size_t k = 0; k < trained.metrics.size(); ++k)
      CHECK(trained.metrics[k].expert_load == expected.metrics[k].expert_load);
    CHECK(same_bits(trained.masters, expected.masters));
  }
}

}  // namespace
}  // namespace tessera::test

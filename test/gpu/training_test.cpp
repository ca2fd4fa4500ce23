// If this failed, a run on a GPU would train other numbers than on the CPU, mix memory of both, or make the host wait
// without need. Runs on the stand-in for a GPU, which has a GPU's rules but not its order of streams.
#include <ATen/Context.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>

#include "executor/value_checks.h"
#include "placed_run.h"
#include "support/catch.h"
#include "support/torch_double/torch_double.h"
#include "train/gpu_setup.h"

namespace tessera::test {
namespace {

using device::Place;

const Words float32{"--train.precision", "float32"};
const Words one_micro_step{"--train.global_batch_size", "1"};

// What a run of a process sets for good, for the length of a test.
struct DeterminismUntilTheEnd {
  ~DeterminismUntilTheEnd() {
    at::globalContext().setDeterministicAlgorithms(false, false);
    ::unsetenv("CUBLAS_WORKSPACE_CONFIG");
  }
};

void check_same_training(const SmallRun& files, const Words& words) {
  CAPTURE(words);
  PlacedRun cpu(files.settings(joined(float32, words)), Place::cpu);
  PlacedRun gpu(files.settings(joined(float32, words)), Place::cuda);
  CHECK(largest_deviation(gpu.first_gradients().of, cpu.first_gradients().of) < 1e-5);
  const auto expected = cpu.train(10), found = gpu.train(10);
  for (std::size_t k = 0; k < expected.size(); ++k) {
    CAPTURE(k);
    REQUIRE(found[k].outcome == executor::Outcome::done);
    CHECK(std::abs(found[k].cross_entropy - expected[k].cross_entropy) <= 1e-5 * expected[k].cross_entropy);
    CHECK(std::abs(found[k].balance_loss - expected[k].balance_loss) <= 1e-5 * std::abs(expected[k].balance_loss));
    CHECK(std::abs(found[k].z_loss - expected[k].z_loss) <= 1e-5 * std::abs(expected[k].z_loss));
    CHECK(std::abs(found[k].grad_norm - expected[k].grad_norm) <= 1e-5 * expected[k].grad_norm);
    CHECK(found[k].expert_load == expected[k].expert_load);
    CHECK(found[k].valid_tokens == expected[k].valid_tokens);
  }
}

TEST_CASE("a value that lies on the wrong side, host or GPU, is found where values are checked") {
  using K = architecture::ValueKind;
  const architecture::ModelConfig config{.hidden_size = 15};
  executor::ValueChecks checks(config, {.place = Place::cuda});
  const auto rows = at::zeros({13, 15}), ids = at::zeros({13}, at::kLong);
  checks.check(0, {K::ids}, ids);
  checks.check(0, {K::hidden, 0}, torch_double::to_device(rows));
  CHECK_THROWS_WITH(checks.check(0, {K::hidden, 0}, rows),
                    Catch::Matchers::ContainsSubstring("not where the run computes"));
  CHECK_THROWS_WITH(checks.check(0, {K::ids}, torch_double::to_device(ids)),
                    Catch::Matchers::ContainsSubstring("not in the host's memory"));
}

TEST_CASE("ten steps on a GPU have the CPU's losses, norms and loads, and the CPU's gradients, in float32") {
  const SmallRun files;
  check_same_training(files, {});
  for (const auto& words : std::vector<Words>{
           {"--model.balance_loss", "per_layer", "--model.router_z_loss_coef", "0.01"},
           {"--model.balance_loss", "sequence", "--data.documents", "separate"},
           {"--train.gradient_checkpointing.enable", "true", "--train.gradient_checkpointing.scope", "full"},
           {"--train.gradient_checkpointing.enable", "true", "--train.gradient_checkpointing.scope", "experts"},
           {"--train.debug.poison_freed", "true"},
           {"--train.optimizer.type", "sgd", "--train.optimizer.momentum", "0.5"},
           {"--train.optimizer.norm_type", "inf", "--train.optimizer.max_grad_norm", "0.1"},
           {"--train.optimizer.norm_type", "1000", "--train.optimizer.max_grad_norm", "0.1"},
           {"--train.global_batch_size", "5", "--train.micro_batch_size", "2"}})
    check_same_training(files, words);
}

TEST_CASE("a run on a GPU computes in bfloat16 unless it is told otherwise, near float32's losses") {
  const SmallRun files;
  PlacedRun wide(files.settings(float32), Place::cpu),
      narrow(files.settings({"--train.precision", "auto"}), Place::cuda);
  CHECK(narrow.start().assembly().blueprint().numbers.compute == at::kBFloat16);
  const auto expected = wide.train(3), found = narrow.train(3);
  for (std::size_t k = 0; k < expected.size(); ++k)
    CHECK(std::abs(found[k].cross_entropy - expected[k].cross_entropy) < 1e-2 * expected[k].cross_entropy);
}

TEST_CASE("on a GPU products are summed in float32, and attention is never cuDNN's") {
  auto& context = at::globalContext();
  context.setAllowBF16ReductionCuBLAS(true);
  context.setAllowFP16ReductionCuBLAS(true);
  context.setSDPUseCuDNN(true);
  const SmallRun files;
  train::set_numerics(files.settings().train, Place::cuda);
  using Option = at::CuBLASReductionOption;
  CHECK(context.allowBF16ReductionCuBLAS() == Option::DisallowReducedPrecisionAllowSplitK);
  CHECK(context.allowFP16ReductionCuBLAS() == Option::DisallowReducedPrecisionAllowSplitK);
  CHECK_FALSE(context.userEnabledCuDNNSDP());
  CHECK_FALSE(context.allowTF32CuBLAS());
}

TEST_CASE("with full determinism only kernels that have the same bits each time are asked for") {
  const SmallRun files;
  for (const std::string precision : {"float32", "bfloat16"}) {
    CAPTURE(precision);
    const auto settings = files.settings({"--train.precision", precision, "--train.enable_full_determinism", "true",
                                          "--model.hidden_size", "24", "--model.moe_intermediate_size", "16"});
    const DeterminismUntilTheEnd ends;
    train::set_numerics(settings.train, Place::cuda);
    CHECK(at::globalContext().deterministicAlgorithms());
    PlacedRun once(settings, Place::cuda), again(settings, Place::cuda);
    const auto first = once.train(3), second = again.train(3);
    for (std::size_t k = 0; k < first.size(); ++k) {
      CHECK(first[k].outcome == executor::Outcome::done);
      CHECK(first[k].cross_entropy == second[k].cross_entropy);
      CHECK(first[k].grad_norm == second[k].grad_norm);
    }
  }
}

TEST_CASE("the timeline of a GPU has every instruction once, one behind the other") {
  const SmallRun files;
  PlacedRun run(files.settings(float32), Place::cuda);
  auto& executor = run.start().assembly().executor();
  executor.timeline().record(100000);
  static_cast<void>(run.train(1));
  auto events = executor.timeline().events();
  std::erase_if(events, [](const auto& event) { return event.lane != executor::TimelineEvent::Lane::compute; });
  REQUIRE(events.size() == executor.executed().size());
  for (std::size_t k = 0; k < events.size(); ++k) {
    CHECK(events[k].name == executor.executed()[k]);
    CHECK(events[k].end >= events[k].begin);
    if (k > 0) CHECK(std::abs(events[k].begin - events[k - 1].end) < 1e-6);
  }
}

// Returns, by name, the operations for which the host waits in a step of `words` after the first.
std::map<std::string, int> waits_of_a_step(const SmallRun& files, const Words& words) {
  PlacedRun run(files.settings(words), Place::cuda);
  static_cast<void>(run.train(1));
  torch_double::reset_synchronisations();
  static_cast<void>(run.train(1));
  std::map<std::string, int> waits;
  for (const auto& name : torch_double::counted_synchronisations()) ++waits[name];
  return waits;
}

TEST_CASE("in a step of one rank the host waits for the GPU only for what close reads") {
  const SmallRun files;
  // Losses, loads, which layers are finite, norms: at the end of the step, one after the other.
  const std::map<std::string, int> close{{"copy to host", 4}};
  const Words grouped{"--model.hidden_size", "24", "--model.moe_intermediate_size", "16"};
  CHECK(waits_of_a_step(files, joined(grouped, one_micro_step)) == close);
  // Products expert by expert want the slots of each: once in each of two MoE layers.
  CHECK(waits_of_a_step(files, joined(float32, one_micro_step)) == std::map<std::string, int>{{"copy to host", 4 + 2}});
}

TEST_CASE("in a step of one rank slots are sorted twice a MoE layer: to choose them, and by row for both passes") {
  const SmallRun files;
  const auto launched = [&](const Words& words) {
    PlacedRun run(files.settings(joined({"--train.global_batch_size", "1"}, words)), Place::cuda);
    torch_double::reset_launches();
    static_cast<void>(run.train(1));
    return torch_double::launches();
  };
  constexpr std::int64_t layers = 2;  // that are MoE, of three
  for (const auto& words :
       std::vector<Words>{float32, {"--model.hidden_size", "24", "--model.moe_intermediate_size", "16"}}) {
    auto launches = launched(words);
    CHECK(launches["aten::sort"] == 2 * layers);
    CHECK(launches["slot_sum"] == 2 * layers);
    CHECK(launches["weighted_swiglu"] == layers);
    CHECK(launches["weighted_swiglu_gradient"] == layers);
  }
}

}  // namespace
}  // namespace tessera::test

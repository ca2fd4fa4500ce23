// If this failed, a run would go on with replicas that drift apart, or a sound run would be ended.
#include "train/replica_check.h"

#include <fmt/format.h>

#include <algorithm>

#include "comm/agreement.h"
#include "gathered.h"
#include "support/catch.h"
#include "support/ranks.h"
#include "support/small_run.h"

namespace tessera::train {
namespace {

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;

const std::string norm = "model.norm.weight";
const std::string experts = "model.layers.1.mlp.experts.down_proj";

enum class Mode { replicate, ddp };

// A layout in which every shard has another holder.
struct Replicated {
  Mode mode{};
  std::int64_t ep = 1;

  [[nodiscard]] test::Words words() const {
    test::Words words = mode == Mode::ddp ? test::Words{"--train.accelerator.fsdp_config.fsdp_mode", "ddp"}
                                          : test::Words{"--train.accelerator.dp_replicate_size", "2"};
    if (ep > 1)
      words.insert(words.end(), {"--train.accelerator.extra_parallel_names", "ep",
                                 "--train.accelerator.extra_parallel_sizes", std::to_string(ep)});
    return words;
  }

  // The ranks that hold what rank 0 or, of experts, the last rank holds of `fqn`. With dp_replicate 2 these are r and
  // r + world / 2; under ddp all ranks, of experts those with the same remainder by ep.
  [[nodiscard]] layout::Group holders_with_last(const std::string& fqn) const {
    const auto world = test::world().size();
    const auto apart = mode == Mode::replicate ? world / 2 : fqn == experts ? ep : 1;
    layout::Group ranks;
    for (std::int64_t r = 0; r < world; ++r)
      if ((world - 1 - r) % apart == 0) ranks.push_back(r);
    return ranks;
  }
};

std::vector<Replicated> layouts() {
  std::vector<Replicated> all{{Mode::replicate, 1}, {Mode::ddp, 1}};
  if (test::world().size() == 4) all.insert(all.end(), {{Mode::replicate, 2}, {Mode::ddp, 2}});
  return all;
}

executor::StepResult run_step(test::Start& start, const program::Program& program) {
  auto inputs = start.steps(1).front().inputs;
  inputs.lr = 0.01;
  return start.assembly().executor().run(program, std::move(inputs));
}

const program::Program& training_program(test::Start& start) {
  return start.assembly().program(program::StepKind::train, start.assembly().blueprint().global_batch);
}

void check(test::Start& start) {
  auto& assembly = start.assembly();
  check_replicas(assembly.store(), assembly.optimizer(), assembly.blueprint().layout, assembly.mesh(), 1);
}

// The message of the failure that all ranks agree on.
template <class Call>
std::string failure_of(Call&& call) {
  try {
    call();
  } catch (const comm::AgreedError& error) {
    CHECK((error.code() == base::ExitCode::rank_failed));
    return error.what();
  }
  return "no failure";
}

at::Tensor state_of(test::Start& start, const std::string& fqn, const std::string& state) {
  if (state == "master") return start.assembly().store().parameter(fqn).master;
  const auto moments = start.assembly().optimizer().state();
  const auto found = std::find_if(moments.begin(), moments.end(),
                                  [&](const auto& moment) { return moment.fqn == fqn && moment.name == state; });
  REQUIRE(found != moments.end());
  return found->tensor;
}

void flip_lowest_bit_of_last_element(const at::Tensor& tensor) {
  REQUIRE(tensor.numel() > 0);
  static_cast<std::uint8_t*>(tensor.data_ptr())[tensor.nbytes() - static_cast<std::size_t>(tensor.element_size())] ^= 1;
}

bool is_last_rank() { return test::world().rank() == test::world().size() - 1; }

TEST_CASE("a run whose replicas are equal passes its checks, one every second step and one at the end") {
  const test::SmallRun files;
  for (const auto& layout : layouts()) {
    const auto words = test::joined(layout.words(), {"--train.max_steps", "5", "--train.debug.check_replicas", "2"});
    CAPTURE(words);
    CHECK(test::run_training(files.settings(words), test::world().communicator()).ending.steps == 5);
  }
}

TEST_CASE("every master and moment of these layouts has replicas") {
  const test::SmallRun files;
  for (const auto& layout : layouts()) {
    test::Start start(files.settings(layout.words()), test::world().communicator());
    auto& assembly = start.assembly();
    const auto count =
        check_replicas(assembly.store(), assembly.optimizer(), assembly.blueprint().layout, assembly.mesh(), 0);
    CHECK(count.states == 3 * assembly.store().parameters().size());
    CHECK(count.replicated == count.states);
  }
}

TEST_CASE("one flipped bit of one replica is named by parameter, state and ranks, on every rank") {
  const test::SmallRun files;
  for (const auto& layout : layouts())
    for (const auto& fqn : {norm, experts})
      for (const std::string state : {"master", "exp_avg", "exp_avg_sq"}) {
        CAPTURE(layout.words(), fqn, state);
        test::Start start(files.settings(layout.words()), test::world().communicator());
        REQUIRE(run_step(start, training_program(start)).outcome == executor::Outcome::done);
        CHECK_NOTHROW(check(start));
        if (is_last_rank()) flip_lowest_bit_of_last_element(state_of(start, fqn, state));
        const auto error = failure_of([&] { check(start); });
        auto equal = layout.holders_with_last(fqn);
        const auto last = equal.back();
        equal.pop_back();
        CHECK_THAT(error, StartsWith(fmt::format("rank {}: after step 1 replicas of {} differ in {}: {} {} {} ",
                                                 equal.front(), fqn, state, equal.size() == 1 ? "rank" : "ranks",
                                                 fmt::join(equal, ", "), equal.size() == 1 ? "holds" : "hold")));
        CHECK_THAT(error, ContainsSubstring(fmt::format(", rank {} holds ", last)));
        CHECK_THAT(error, !ContainsSubstring("more masters"));
      }
}

// The program without the sum over the replicas of `unit`.
program::Program without_sum(program::Program program, const std::string& unit) {
  const auto target = std::find(program.units.begin(), program.units.end(), unit) - program.units.begin();
  const auto removed = std::erase_if(program.instructions, [&](const program::Instruction& i) {
    const bool is_sum = i.op == program::Op::sum || (i.op == program::Op::wait && i.waits_for == program::Op::sum);
    return is_sum && i.sum == program::SumKind::replicas && i.target == target;
  });
  REQUIRE(removed == 2);
  return program;
}

TEST_CASE("a sum over replicas that no rank makes is found after one step, and a parameter of its unit is named") {
  const test::SmallRun files;
  for (const auto& layout : layouts())
    for (const auto& [unit, fqn, state] :
         {std::tuple{"head", norm, "master"}, {"layers.1.experts", experts, "master"}}) {
      CAPTURE(layout.words(), unit);
      test::Start start(files.settings(layout.words()), test::world().communicator());
      const auto program = without_sum(training_program(start), unit);
      REQUIRE(run_step(start, program).outcome == executor::Outcome::done);
      const auto error = failure_of([&] { check(start); });
      CHECK_THAT(error, ContainsSubstring("after step 1 replicas of "));
      CHECK_THAT(error, ContainsSubstring(unit == std::string("head") ? "of model.norm.weight differ in master: rank 0"
                                                                      : "of model.layers.1.mlp.experts."));
    }
}

TEST_CASE("a run whose replicas differ ends with exit code 4 at its first check") {
  const test::SmallRun files;
  for (const auto& layout : layouts()) {
    CAPTURE(layout.words());
    const auto settings =
        files.settings(test::joined(layout.words(), {"--train.max_steps", "9", "--train.debug.check_replicas", "3"}));
    test::Start start(settings, test::world().communicator());
    auto& assembly = start.assembly();
    if (is_last_rank()) assembly.store().parameter("lm_head.weight").master.mul_(2);
    const StopSignals signals;
    Report report(9, 1, Audience::file);
    Trainer trainer({.assembly = assembly, .training = start.training(), .signals = signals, .report = report});
    CHECK_THAT(failure_of([&] { trainer.train(); }),
               ContainsSubstring("after step 3 replicas of lm_head.weight differ in master: rank"));
  }
}

}  // namespace
}  // namespace tessera::train

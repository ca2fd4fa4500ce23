// If this failed, a gradient would be weighted by which rank holds a token, summed in a narrow type, or lost in an
// exchange; or experts without tokens would be updated differently when they have an owner of their own.
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>

#include "data/window.h"
#include "gathered.h"
#include "support/catch.h"
#include "support/ranks.h"

namespace tessera::test {
namespace {

const std::string accelerator = "--train.accelerator.";
const Words exact{"--train.precision", "float64", "--train.global_batch_size", "8"};

Words replicated(std::int64_t replicas) { return {accelerator + "dp_replicate_size", std::to_string(replicas)}; }

// One sequence of which the last `targets` tokens count.
data::Window window_of(const std::vector<std::int64_t>& ids, std::int64_t targets) {
  data::Window window;
  const auto tokens = std::ssize(ids) - 1;
  for (std::int64_t i = 0; i < tokens; ++i) {
    window.ids.push_back(ids[static_cast<std::size_t>(i)]);
    window.labels.push_back(i < tokens - targets ? data::no_label : ids[static_cast<std::size_t>(i + 1)]);
    window.positions.push_back(i);
  }
  window.attention_starts = {0, tokens};
  window.valid_tokens = targets;
  return window;
}

Gradients gradients_of(Start& start, const std::vector<data::Window>& windows) {
  auto& assembly = start.assembly();
  const auto& program = assembly.program(program::StepKind::train, assembly.blueprint().data_ranks());
  return gradients(assembly, program, inputs_of({windows}));
}

TEST_CASE("the loss is the mean over all targets, not over the ranks' means: 5 of one rank and 1 of another are 6") {
  const SmallRun files;
  const auto five = window_of({3, 1, 4, 1, 5, 9}, 5), one = window_of({5, 8, 9, 7, 9, 3, 2, 6}, 1);
  const Words numbers = joined(exact, {"--model.router_aux_loss_coef", "0"});
  Start alone(files.settings(joined(numbers, {"--train.micro_batch_size", "2"})));
  const auto mean_of_five = gradients_of(alone, {five}).result.cross_entropy;
  const auto loss_of_one = gradients_of(alone, {one}).result.cross_entropy;
  const auto expected = (5 * mean_of_five + loss_of_one) / 6;
  REQUIRE(std::abs(expected - (mean_of_five + loss_of_one) / 2) > 1e-3);
  const auto together = gradients_of(alone, {five, one});

  for (const auto& words : {Words{}, groups({{"ep", 2}, {"emb", 2}})}) {
    CAPTURE(words);
    Start start(files.settings(joined(numbers, words)), world().communicator());
    std::vector<data::Window> own;  // none on ranks 2 and 3
    if (world().rank() < 2) own.push_back(world().rank() == 0 ? five : one);
    const auto shared = gradients_of(start, own);
    CHECK(shared.result.valid_tokens == 6);
    CHECK(std::abs(shared.result.cross_entropy - expected) <= 1e-12 * expected);
    CHECK(largest_deviation(gathered_gradients(start.assembly(), shared.of), together.of) <= 1e-12);
  }
}

TEST_CASE(
    "without a balance loss the router, attention and embedding still have their gradients through the exchanges") {
  const SmallRun files;
  const Words numbers = joined(exact, {"--model.router_aux_loss_coef", "0"});
  const auto alone = first_gradients(files.settings(numbers));
  for (const auto& words : {groups({{"ep", 2}}), groups({{"ep", 2}, {"emb", 2}})}) {
    CAPTURE(words);
    Start start(files.settings(joined(numbers, words)), world().communicator());
    const auto shared = gradients(start.assembly(), start.steps(1).front());
    const auto whole = gathered_gradients(start.assembly(), shared.of);
    for (const auto& [fqn, gradient] : whole) {
      INFO(fqn);
      CHECK(gradient.abs().max().item<double>() > 1e-5);
    }
    CHECK(largest_deviation(whole, alone.of) <= 1e-12);
  }
}

// What this rank brings: 256 of the first, 1 of the others. In bfloat16 256 + 1 is 256.
double own_part() { return world().rank() == 0 ? 256 : 1; }
double sum_of_parts() { return 255 + static_cast<double>(world().size()); }

bool all_are(const at::Tensor& tensor, double value) {
  return tensor.scalar_type() == at::kFloat && (tensor.numel() == 0 || tensor.eq(value).all().item<bool>());
}

TEST_CASE("bfloat16 pieces of 256 and 1s are summed in float32") {
  const auto world_size = world().size();
  const auto pieces = at::full({world_size, 3}, own_part(), at::kBFloat16);
  const auto sum = at::zeros({3}, at::kFloat);
  comm::ReduceBlock block{.type = comm::ElementType::bfloat16,
                          .pieces = {},
                          .sum_type = comm::ElementType::float32,
                          .sum = {sum.data_ptr(), 1, 3, 3}};
  for (std::int64_t k = 0; k < world_size; ++k) block.pieces.push_back({pieces[k].data_ptr(), 1, 3, 3});
  world().communicator()->reduce_blocks({block}, nullptr)->wait();
  CHECK(all_are(sum, sum_of_parts()));
}

TEST_CASE("with bfloat16 weights, gradients of 256 and 1s are summed in float32, by FSDP and over micro-batches") {
  const SmallRun files;
  for (const auto& words : {Words{}, groups({{"ep", 2}, {"emb", 2}})}) {
    CAPTURE(words);
    Start start(files.settings(joined({"--train.precision", "bfloat16"}, words)), world().communicator());
    auto& assembly = start.assembly();
    auto& store = assembly.store();
    const auto& units = assembly.blueprint().architecture.units();
    for (const int times : {1, 4}) {  // a reduction a micro-batch
      store.zero_gradients();
      for (int micro = 0; micro < times; ++micro)
        for (std::size_t u = 0; u < units.size(); ++u) {
          store.take_gradient(u);
          for (std::size_t use = 0; use < units[u].uses.size(); ++use) {
            auto& buffer = store.weight(u, use).gradient();
            CHECK(buffer.scalar_type() == at::kFloat);
            buffer.add_(own_part());
          }
          for (auto& travelling : store.start_reduce(u)) travelling.handle->wait();
          store.give_back_gradient(u);
        }
      for (const auto& p : store.parameters()) {
        INFO(p.placement.parameter.fqn);
        const auto ranks =
            assembly.blueprint().layout.group(world().rank(), plan::gather_group(p.placement, plan::UseKind::owned));
        const auto holds_first = ranks.front() == 0;
        const auto sum = static_cast<double>(ranks.size()) + (holds_first ? 255 : 0);
        CHECK(all_are(p.gradient, times * sum));
      }
    }
  }
}

TEST_CASE("with bfloat16 weights, gradients of replicas are summed in float32") {
  const SmallRun files;
  const auto size = world().size();
  Start start(files.settings(joined({"--train.precision", "bfloat16"}, replicated(size))), world().communicator());
  auto& assembly = start.assembly();
  auto program = assembly.program(program::StepKind::train, assembly.blueprint().global_batch);
  std::erase_if(program.instructions, [&](const program::Instruction& i) {
    const bool is_sum = i.op == program::Op::sum || (i.op == program::Op::wait && i.waits_for == program::Op::sum);
    return !is_sum || i.sum != program::SumKind::replicas;
  });
  REQUIRE(program.instructions.size() == 2 * program.units.size());
  for (auto& p : assembly.store().parameters()) p.gradient.fill_(own_part());
  (void)assembly.executor().run(program, start.steps(1).front().inputs);
  for (const auto& p : assembly.store().parameters()) {
    INFO(p.placement.parameter.fqn);
    CHECK(all_are(p.gradient, sum_of_parts()));
  }
}

TEST_CASE("in bfloat16 eight micro-batches are as near to float32 as one, over shards and replicas") {
  const SmallRun files;
  const Words numbers{"--data.max_seq_len", "5", "--train.global_batch_size", "32", "--model.balance_loss", "sequence"};
  const auto reference = first_gradients(files.settings(joined(numbers, {"--train.micro_batch_size", "32"})));
  const auto of_micro_batches = [&](std::int64_t count) {
    const Words words{"--train.precision", "bfloat16", "--train.micro_batch_size",
                      std::to_string(32 / world().size() / count)};
    Start start(files.settings(joined(joined(numbers, replicated(2)), words)), world().communicator());
    return gathered_gradients(start.assembly(), gradients(start.assembly(), start.steps(1).front()).of);
  };
  const auto error_of_one = largest_deviation(of_micro_batches(1), reference.of);
  const auto error_of_eight = largest_deviation(of_micro_batches(8), reference.of);
  CAPTURE(error_of_one, error_of_eight);
  CHECK(error_of_one > 1e-4);
  CHECK(error_of_eight <= 1.05 * error_of_one);
}

const std::string router = "model.layers.1.mlp.gate.weight", experts = "model.layers.1.mlp.experts.up_proj";

// Masters and moments, whole: of a run shared by the world, or of one that each rank makes alone.
enum class Sharing { alone, shared };
TensorsByName state_of(train::Assembly& assembly, Sharing sharing) {
  TensorsByName state;
  const auto add = [&](const std::string& name, const fsdp::ShardedParameter& p, const at::Tensor& tensor) {
    state[name] = sharing == Sharing::shared ? gathered(p, tensor) : tensor.clone();
  };
  for (const auto& p : assembly.store().parameters()) add(p.placement.parameter.fqn, p, p.master);
  for (const auto& moment : assembly.optimizer().state())
    add(moment.fqn + "/" + moment.name, assembly.store().parameter(moment.fqn), moment.tensor);
  return state;
}

// Of equal probabilities the lowest expert's is chosen; with a row for expert 3 some tokens go there.
void set_router(train::Assembly& assembly, double of_third) {
  auto& p = assembly.store().parameter(router);
  p.master.zero_();
  const auto& rows = p.box.dims[0];
  if (3 >= rows.begin && 3 < rows.end) p.master.select(0, 3 - rows.begin).fill_(of_third);
}

// After each of four steps: three with expert 0 alone, and one in which expert 3 has its first tokens.
std::vector<TensorsByName> states_of(Start& start, Sharing sharing) {
  std::vector<TensorsByName> states;
  for (const auto& step : start.steps(4)) {
    set_router(start.assembly(), states.size() < 3 ? 0 : 1);
    train_step(start.assembly(), step, 0.1);
    states.push_back(state_of(start.assembly(), sharing));
  }
  return states;
}

TEST_CASE("experts that no token reaches are stepped as on one rank, also when all of an owner are such") {
  const SmallRun files;
  const Words numbers = joined(exact, {"--model.num_experts_per_tok", "1", "--model.norm_topk_prob", "false",
                                       "--model.router_aux_loss_coef", "0", "--train.optimizer.weight_decay", "0.1"});
  Start alone(files.settings(numbers));
  const auto expected = states_of(alone, Sharing::alone);
  const auto& third = expected[2].at(experts + "/exp_avg_sq");
  CHECK(third.narrow(0, 1, 4).abs().max().item<double>() == 0);
  CHECK(third.select(0, 0).abs().max().item<double>() > 0);
  CHECK(expected[3].at(experts + "/exp_avg_sq").select(0, 3).abs().max().item<double>() > 0);

  const Words owners = groups({{"ep", 2}});
  for (const auto& words : {Words{}, owners, joined(owners, {accelerator + "fsdp_config.fsdp_mode", "ddp"})}) {
    CAPTURE(words);
    Start start(files.settings(joined(numbers, words)), world().communicator());
    const auto states = states_of(start, Sharing::shared);
    for (std::size_t k = 0; k < states.size(); ++k) CHECK(largest_deviation(states[k], expected[k]) <= 1e-10);
  }
}

}  // namespace
}  // namespace tessera::test

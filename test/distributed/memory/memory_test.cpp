// If this failed, a rank would need more memory than --dry-run says, or hold whole parameters that are sharded to save
// memory.
#include <ATen/ops/empty.h>

#include <algorithm>

#include "counted_memory.h"
#include "device/buffer_pool.h"
#include "support/catch.h"
#include "support/ranks.h"
#include "support/small_run.h"

namespace tessera::test {
namespace {

// Parameters larger than all that a step of 3 tokens a rank computes with: 7 experts of [37, 45], 401 ids of 45.
constexpr std::int64_t experts = 7, hidden = 45, intermediate = 37, vocabulary = 401;

// Groups of these sizes; `mode` as train.accelerator.fsdp_config.fsdp_mode.
struct Case {
  std::int64_t ep = 1, emb = 1;
  std::string mode = "fsdp2", precision = "float32", optimizer = "adamw";

  [[nodiscard]] Words words() const {
    Words words{"--train.accelerator.fsdp_config.fsdp_mode",
                mode,
                "--train.precision",
                precision,
                "--train.optimizer.type",
                optimizer,
                "--model.num_experts",
                std::to_string(experts),
                "--model.hidden_size",
                std::to_string(hidden),
                "--model.moe_intermediate_size",
                std::to_string(intermediate),
                "--model.vocab_size",
                std::to_string(vocabulary),
                "--data.max_seq_len",
                "3",
                "--train.global_batch_size",
                std::to_string(2 * world().size()),
                "--train.accelerator.extra_parallel_names",
                "ep",
                "emb",
                "--train.accelerator.extra_parallel_sizes",
                std::to_string(ep),
                std::to_string(emb)};
    return words;
  }
};

std::vector<Case> cases() {
  const auto n = world().size();
  std::vector<Case> all{
      {n, n}, {1, n, "zero1"}, {n, 1, "ddp"}, {n, n, "zero2", "bfloat16"}, {1, 1, "fsdp2", "float32", "sgd"}};
  if (n == 4) all.insert(all.end(), {{2, 2}, {2, 4, "ddp"}, {4, 2, "zero1", "bfloat16"}});
  return all;
}

std::int64_t planned(const program::MemoryPlan& plan, const std::vector<std::string>& purposes) {
  double bytes = 0;
  std::size_t found = 0;
  for (const auto& purpose : plan.purposes) {
    if (std::find(purposes.begin(), purposes.end(), purpose.name) == purposes.end()) continue;
    bytes += purpose.bytes;
    ++found;
  }
  REQUIRE(found == purposes.size());
  return static_cast<std::int64_t>(bytes);
}

void run_step(Start& start, const Start::Step& step) {
  auto inputs = step.inputs;
  inputs.lr = 0.01;
  auto& assembly = start.assembly();
  const auto& program = assembly.program(program::StepKind::train, step.windows);
  REQUIRE(assembly.executor().run(program, std::move(inputs)).outcome == executor::Outcome::done);
}

std::int64_t up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// Elements of the largest shard of a rank. [V, H] and [E, I, H] are cut on dim 0 by owners and then on dim 1 by FSDP;
// without owners FSDP cuts dim 0.
std::int64_t largest_shard(const Case& c) {
  const auto n = world().size();
  const auto of_fsdp = [&](std::int64_t ranks) { return c.mode == "ddp" ? 1 : ranks; };
  const auto embedding =
      c.emb == 1 ? up(vocabulary, of_fsdp(n)) * hidden : up(vocabulary, c.emb) * up(hidden, of_fsdp(n / c.emb));
  const auto head = up(vocabulary, of_fsdp(n)) * hidden;
  const auto gate = c.ep == 1 ? up(experts, of_fsdp(n)) * intermediate * hidden
                              : up(experts, c.ep) * up(intermediate, of_fsdp(n / c.ep)) * hidden;
  const auto down = c.ep == 1 ? gate : up(experts, c.ep) * up(hidden, of_fsdp(n / c.ep)) * intermediate;
  return std::max({embedding, head, gate, down});
}

// Bytes of the largest use of a unit: the experts of an owner, or the whole head; 64 more for each parameter, since
// each starts at a multiple of 64.
std::int64_t largest_unit(const Case& c, std::int64_t element_bytes) {
  const auto of_experts = 3 * (up(experts, c.ep) * intermediate * hidden * element_bytes + 64);
  const auto of_head = (vocabulary + 1) * hidden * element_bytes + 2 * 64;
  return std::max(of_experts, of_head);
}

TEST_CASE("shards, optimizer state and pools take what the memory plan says, and nothing is larger than its use") {
  const SmallRun files;
  for (const auto& c : cases()) {
    CAPTURE(c.ep, c.emb, c.mode, c.precision, c.optimizer);
    const auto settings = files.settings(c.words());
    auto blueprint = blueprint_of(settings, world().size());
    const auto plan = train::make_memory_plan(
        blueprint, world().rank(), train::make_program(blueprint, program::StepKind::train, blueprint.global_batch));
    const MemoryCount count;
    train::Assembly assembly(std::move(blueprint), world().communicator());
    const auto assembled = count.so_far();
    CHECK(assembled.live_tensor_bytes == planned(plan, {"masters", "shard gradients", "optimizer state"}));
    CHECK(assembled.slot_bytes() == planned(plan, {"gathered weights", "gradient buffers"}));
    CHECK(assembled.largest_tensor() <= largest_shard(c) * 4);
    for (const auto slot : assembled.slots) CHECK(slot <= largest_unit(c, 4));
  }
}

// A step has no temporary of the size of a shard of the head or of the experts of an owner; only a CPU that widens
// bfloat16 around its products holds a use once more in float32, the head at most.
std::int64_t largest_temporary(const Case& c) {
  if (c.precision == "bfloat16") return vocabulary * hidden * 4 + 1;
  return std::min(up(vocabulary, world().size()) * hidden, up(experts, c.ep) * intermediate * hidden) * 4;
}

TEST_CASE("a step takes no slots, no tensor as large as a shard, and keeps nothing") {
  const SmallRun files;
  for (const auto& c : cases()) {
    CAPTURE(c.ep, c.emb, c.mode, c.precision, c.optimizer);
    Start start(files.settings(c.words()), world().communicator());
    const auto steps = start.steps(3);
    const MemoryCount count;
    run_step(start, steps[0]);
    const auto first = count.so_far();
    CHECK(first.slots.empty());
    CHECK(first.largest_tensor() < largest_temporary(c));
    run_step(start, steps[1]);
    const auto kept = count.so_far().live_tensor_bytes;
    run_step(start, steps[2]);
    CHECK(count.so_far().live_tensor_bytes == kept);
    CHECK(kept <= first.largest_tensor());
  }
}

TEST_CASE("memory that is taken on purpose is counted") {
  const MemoryCount count;
  const auto before = count.so_far();
  CHECK(before.tensors.empty());
  const device::BufferPool pool("a test", {{192, 2}, {64, 1}}, device::Poison::off);
  {
    const auto tensor = at::empty({7, 3}, at::kDouble);
    CHECK(count.so_far().live_tensor_bytes == 7 * 3 * 8);
  }
  CHECK(count.so_far().live_tensor_bytes == 0);
  CHECK(count.so_far().largest_tensor() == 7 * 3 * 8);
  CHECK(count.so_far().slots == std::vector<std::int64_t>{64, 192, 192});
  CHECK(count.so_far().slot_bytes() == pool.allocated_bytes());
}

}  // namespace
}  // namespace tessera::test

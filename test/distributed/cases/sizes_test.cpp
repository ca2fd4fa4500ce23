// If this failed, sizes that the ranks do not divide, or ranks without experts, rows or sequences, would train other
// numbers than one rank.
#include <ATen/ops/isfinite.h>

#include <set>

#include "../invariance/comparison.h"
#include "layout/share.h"
#include "support/catch.h"
#include "support/ranks.h"
#include "support/small_run.h"

namespace tessera::test {
namespace {

constexpr double bar = 1e-10;  // relative, in float64
const std::string accelerator = "--train.accelerator.";

Words group(const std::string& name, std::int64_t size) {
  return {accelerator + "extra_parallel_names", name, accelerator + "extra_parallel_sizes", std::to_string(size)};
}

// Three steps of SGD with the batch `model` and `data` ask for, in the layout of `layout`, against one rank.
void check_same(const SmallRun& files, const Words& common, const Words& layout) {
  const auto ranks = world().size();
  const Words words{"--train.precision",       "float64",  "--train.optimizer.type",    "sgd",
                    "--model.balance_loss",    "sequence", "--train.global_batch_size", "8",
                    "--train.micro_batch_size"};
  const auto with = [&](std::int64_t micro) { return joined(joined(words, {std::to_string(micro)}), common); };
  const auto reference = train_alone(files.settings(with(8)), 3);
  const auto deviations =
      compare(files.settings(joined(with((8 + ranks - 1) / ranks), layout)), world().communicator(), reference);
  INFO("losses " << deviations.losses << ", norms " << deviations.norms << ", gradients " << deviations.gradients
                 << " (" << deviations.largest_gradient << ")");
  CHECK_ON_ALL(deviations.largest() <= bar);
  CHECK(deviations.sent == deviations.planned);
}

// SHD-1: dim 1 of the experts does not divide by the ranks that share it.
TEST_CASE("dim 1 of the experts need not divide by its FSDP group") {
  const SmallRun files;
  const Words odd{"--model.hidden_size", "33", "--model.moe_intermediate_size", "5"};
  check_same(files, odd, {});
  if (world().size() % 2 == 0) check_same(files, odd, group("ep", 2));
}

// SHD-2: fewer rows than ranks, so that some ranks keep nothing of a parameter.
TEST_CASE("a rank may keep less than others, or nothing, of a router, a norm or the experts") {
  const SmallRun files;
  for (const auto& sizes :
       {Words{"--model.num_experts", "2"}, Words{"--model.head_dim", "6"}, Words{"--model.head_dim", "2"},
        Words{"--model.num_experts", "1", "--model.num_experts_per_tok", "1"}, Words{"--model.num_experts", "3"},
        Words{"--model.num_experts", "6"}}) {
    INFO(sizes[0] << " " << sizes[1]);
    check_same(files, sizes, {});
    check_same(files, sizes, group("ep", world().size()));
  }
}

// SHD-3: ids that repeat (but not all alike: then attention has no gradient), that all belong to one owner, the first
// and the last, and ranks that ask for none.
TEST_CASE("an embedding that several ranks own gives the rows and gradients of one") {
  const auto lines = [](const std::vector<std::int64_t>& ids) {
    return jsonl_of(std::vector<std::vector<std::int64_t>>(40, ids));
  };
  for (const auto& ids : {std::vector<std::int64_t>{5, 6, 5, 5, 6, 5, 5}, std::vector<std::int64_t>{1, 0, 2, 1, 3, 0},
                          std::vector<std::int64_t>{30, 29, 30, 28, 30}, std::vector<std::int64_t>{0, 30, 0, 30, 15}}) {
    const SmallRun files;
    files.folder().write("train.jsonl", lines(ids));
    INFO("ids " << ids[0] << ", " << ids[1] << ", ...");
    for (const char* tied : {"false", "true"})
      check_same(files, {"--model.tie_word_embeddings", tied}, group("emb", world().size()));
    check_same(files, {"--train.global_batch_size", "2"}, group("emb", world().size()));  // two ranks have sequences
  }
}

// DAT-3, DAT-4: each sequence of an epoch reaches exactly one rank, in shares that differ by at most one.
TEST_CASE("every sequence of an epoch is some rank's, once") {
  const SmallRun files;
  std::vector<std::vector<std::int64_t>> documents;
  for (std::int64_t d = 0; d < 29; ++d) documents.push_back(std::vector<std::int64_t>(13, d));  // one window each
  files.folder().write("train.jsonl", jsonl_of(documents));
  Start start(files.settings({"--train.global_batch_size", "10", "--train.micro_batch_size", "4"}),
              world().communicator());
  std::vector<std::int64_t> seen(31, 0);
  for (const auto& step : start.steps(3)) {
    std::vector<std::int64_t> shares(static_cast<std::size_t>(world().size()), 0);
    for (const auto& batch : step.inputs.batches) {
      const auto& ids = batch.at({architecture::ValueKind::ids, -1});
      const auto& starts = batch.at({architecture::ValueKind::sequence_starts, -1});
      shares[static_cast<std::size_t>(world().rank())] += starts.numel() - 1;
      for (std::int64_t k = 0; k + 1 < starts.numel(); ++k)
        ++seen[static_cast<std::size_t>(ids.const_data_ptr<std::int64_t>()[starts.const_data_ptr<std::int64_t>()[k]])];
    }
    world()
        .communicator()
        ->all_reduce(shares.data(), world().size(), comm::ElementType::int64, comm::ReduceOperation::add, nullptr)
        ->wait();
    std::int64_t sum = 0;
    for (const auto share : shares) sum += share;
    CHECK(sum == step.windows);
  }
  world()
      .communicator()
      ->all_reduce(seen.data(), 31, comm::ElementType::int64, comm::ReduceOperation::add, nullptr)
      ->wait();
  // The last tokens do not fill a window.
  REQUIRE(start.training().windows(0) == 28);
  for (std::size_t d = 0; d < 28; ++d) CHECK(seen[d] == 1);
}

// MOE-6: all ranks react alike to the numbers of one rank.
TEST_CASE("a number that is not finite on one rank is named by layer and rank, on every rank") {
  const SmallRun files;
  std::vector<std::vector<std::int64_t>> documents(40, std::vector<std::int64_t>{1, 2, 3, 4, 5});
  documents.insert(documents.begin() + 20, {30, 30, 30});
  files.folder().write("train.jsonl", jsonl_of(documents));
  for (const auto& layout : {Words{}, group("ep", world().size())}) {
    Start start(
        files.settings(joined(
            {"--train.global_batch_size", std::to_string(world().size() * 3), "--data.max_seq_len", "5"}, layout)),
        world().communicator());
    for (auto& p : start.assembly().store().parameters()) {
      if (p.placement.parameter.fqn != "model.embed_tokens.weight") continue;
      if (p.box.dims[0].begin <= 30 && 30 < p.box.dims[0].end) p.master.select(0, 30 - p.box.dims[0].begin).fill_(NAN);
    }
    for (const auto& step : start.steps(20)) {
      std::int64_t culprit = -1;
      for (const auto& batch : step.inputs.batches)
        if (batch.at({architecture::ValueKind::ids, -1}).eq(30).any().item<bool>()) culprit = world().rank();
      world()
          .communicator()
          ->all_reduce(&culprit, 1, comm::ElementType::int64, comm::ReduceOperation::max, nullptr)
          ->wait();
      const auto result = gradients(start.assembly(), step).result;
      CHECK_ON_ALL((result.outcome == executor::Outcome::non_finite) == (culprit >= 0));
      if (culprit < 0) continue;
      CHECK_ON_ALL(result.non_finite_where == "the output of layer 0 on rank " + std::to_string(culprit));
    }
  }
}

}  // namespace
}  // namespace tessera::test

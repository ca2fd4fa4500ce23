// If this failed, a run that resumes with other ranks or another layout would start from other numbers than were saved.
#include "every_pair.h"
#include "support/catch.h"
#include "support/ranks.h"

namespace tessera::test {
namespace {

// CKP-6, and all else that up to four ranks can be.
TEST_CASE("any layout loads bit for bit what any other saved: masters, moments, count of steps, every expert") {
  check_every_pair(chosen_layouts(), {});
}

TEST_CASE("sizes that leave ranks without anything are saved and loaded like all others") {
  const std::vector<CheckpointLayout> layouts{{1, {}},
                                              {3, {}},
                                              {4, {}},
                                              {4, preset("ddp")},
                                              {4, replicas(2, 4)},
                                              {4, groups_of({{"ep", 4}, {"emb", 2}})},
                                              {4, groups_of({{"ep", 2}, {"emb", 4}}, Placed::outer)}};
  // SHD-2: two experts, norms of two elements, over four ranks; and a model that is smaller still.
  check_every_pair(layouts, {"--model.num_experts", "2", "--model.head_dim", "2"});
  check_every_pair(layouts, {"--model.num_experts", "1", "--model.num_experts_per_tok", "1", "--model.head_dim", "2",
                             "--model.moe_intermediate_size", "1", "--model.hidden_size", "3", "--train.precision",
                             "float64", "--train.optimizer.type", "sgd", "--train.optimizer.momentum", "0.9"});
}

TEST_CASE("one element of one moment that is off, on one rank, is seen") {
  const std::vector<CheckpointLayout> layouts{{4, {}}, {4, groups_of({{"ep", 2}})}};
  const auto faults = faults_of_every_pair(layouts, {}, [](train::Assembly& assembly) {
    if (assembly.rank() == 2) assembly.optimizer().state().at(7).tensor.view({-1})[0].add_(1);
  });
  CHECK_ON_ALL(faults.size() == (world().rank() == 2 ? 4 : 0));
}

}  // namespace
}  // namespace tessera::test

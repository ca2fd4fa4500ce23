// If this failed, "did you mean" would propose the wrong setting or none.
#include "base/nearest.h"
#include "support/catch.h"

#include <vector>

using namespace tessera::base;

TEST_CASE("edit distance counts insertions, deletions, substitutions and swaps of neighbours") {
  CHECK(edit_distance("", "") == 0);
  CHECK(edit_distance("", "abc") == 3);
  CHECK(edit_distance("abc", "") == 3);
  CHECK(edit_distance("kitten", "sitting") == 3);
  CHECK(edit_distance("expert", "epxert") == 1);
  CHECK(edit_distance("ca", "abc") == 3);  // optimal string alignment; the unrestricted distance is 2
}

TEST_CASE("the nearest name is found") {
  const std::vector<std::string> names{"train.optimizer.lr", "train.optimizer.lr_min", "train.seed", "data.max_seq_len",
                                       "train.accelerator.extra_parallel_sizes"};
  CHECK(nearest_name("train.sead", names) == "train.seed");
  CHECK(nearest_name("train.optimiser.lr", names) == "train.optimizer.lr");
  CHECK(nearest_name("lr", names) == "train.optimizer.lr");
  CHECK(nearest_name("train.max_seq_len", names) == "data.max_seq_len");
  CHECK(nearest_name("Data.max-seq-len", names) == "data.max_seq_len");
  CHECK(nearest_name("zzz", names) == std::nullopt);
  CHECK(nearest_name("", names) == std::nullopt);
  CHECK(nearest_name("x", {}) == std::nullopt);
}

TEST_CASE("the proposal reads as part of a sentence") {
  const std::vector<std::string> names{"cosine", "constant", "linear"};
  CHECK(did_you_mean("cosin", names) == "; did you mean cosine?");
  CHECK(did_you_mean("polynomial", names).empty());
}

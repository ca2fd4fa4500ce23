// A way to share a training among ranks, and the one-rank run with which it is compared.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cover.h"
#include "support/small_run.h"

namespace tessera::test {

enum class Groups { none, ep, emb, ep_emb, own, all };
enum class Placement { inner, outer };
enum class Sizes { smallest, largest };  // of the first group; a second group has the other
enum class Mode { fsdp2, fsdp2_kept, zero2, zero1, ddp };
enum class Recompute { none, full, experts };
enum class Overlap { off, on };
enum class Documents { joined, separate };
enum class Head { untied, tied };
enum class Balance { pooled, per_layer, sequence };
// two and uneven: 24 sequences, in micro-steps of 12, or of 18 and 6, or near these if the ranks do not divide them.
// starving: one sequence more than a micro-step holds.
enum class MicroSteps { one, two, uneven, starving };
enum class Optimizer { sgd, adamw };
enum class Buffers { bound, always_copied };

struct LayoutCase {
  std::int64_t world = 1;
  Groups groups{};
  Placement placement{};
  Sizes sizes{};
  std::int64_t replicas = 1;
  Mode mode{};
  Recompute recompute{};
  Overlap overlap{};
  Documents documents{};
  Head head{};
  Balance balance{};
  MicroSteps micro_steps{};
  Optimizer optimizer{};
  std::int64_t prefetch = 1;
  Buffers buffers{};

  // Return the sequences of a full micro-step over all ranks, and of a step.
  [[nodiscard]] std::int64_t sequences_together() const;
  [[nodiscard]] std::int64_t global_batch() const;
  // Returns the options that train this layout; `plan` is a file with the plan of the group `own`.
  [[nodiscard]] Words words(const std::string& plan) const;
  // Returns the options that train the same run on one rank.
  [[nodiscard]] Words reference_words() const;
  [[nodiscard]] std::string describe() const;
  // Returns names and sizes of the groups.
  [[nodiscard]] std::vector<std::pair<std::string, std::int64_t>> extra_groups() const;
};

// Returns a plan of the built-in groups and of `own`, which splits the output projections of the attention.
[[nodiscard]] std::string plan_with_own_group();

[[nodiscard]] LayoutCase layout_case(std::int64_t world, const Choice& choice);
[[nodiscard]] std::vector<std::size_t> factor_sizes();
[[nodiscard]] bool is_legal(const LayoutCase& c);

// Returns cases of `world` ranks in which any `strength` values of different factors meet.
[[nodiscard]] std::vector<LayoutCase> covering_cases(std::int64_t world, std::size_t strength);

}  // namespace tessera::test

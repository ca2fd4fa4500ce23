// A training drawn by chance: model, data, batch, optimizer, and how several ranks share it.
#pragma once

#include <cstdint>
#include <string>

#include "support/small_run.h"

namespace tessera::test {

enum class Format { float64, float32, bfloat16 };

struct RandomCase {
  std::string config;     // config.json
  std::string documents;  // JSONL
  std::string plan;       // names every group of the case
  Format format{};
  Words words;  // options that train it on the number of ranks for which it is drawn
  // Options that train it on one rank, every micro-batch in one piece: in float64, except for bfloat16, whose rounding
  // in a small model can be as large as its gradients.
  Words reference;

  // Writes the files that the options name into `files`, which must outlive the use of the settings.
  [[nodiscard]] config::Settings settings(const SmallRun& files, const Words& options) const;
};

// Draws a case, always a legal one: the same for the same seed and number of ranks, on every machine.
[[nodiscard]] RandomCase random_case(std::uint64_t seed, std::int64_t ranks);

}  // namespace tessera::test

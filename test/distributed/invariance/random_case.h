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
  Words words;  // options that train it on the ranks it is drawn for
  // On one rank, every micro-batch in one piece; in float64, but for bfloat16, whose rounding a small model can make as
  // large as its gradients.
  Words reference;

  // Writes the files that the options mean into `files`, which must live as long as the settings are used.
  [[nodiscard]] config::Settings settings(const SmallRun& files, const Words& options) const;
};

// The same case for the same seed and number of ranks, on every machine. Every case is legal.
[[nodiscard]] RandomCase random_case(std::uint64_t seed, std::int64_t ranks);

}  // namespace tessera::test

// A window: the tokens of one sequence, as the model gets them, without padding.
#pragma once

#include <cstdint>
#include <vector>

namespace tessera::data {

// A label that the loss leaves out (HuggingFace's and PyTorch's convention).
inline constexpr std::int64_t no_label = -100;

struct Window {
  std::vector<std::int64_t> ids;        // [tokens]
  std::vector<std::int64_t> labels;     // [tokens], the target that each token predicts, or no_label
  std::vector<std::int64_t> positions;  // [tokens], for the rotary embedding
  // Offsets of the ranges that attend only within themselves, from 0 to tokens; strictly increasing.
  std::vector<std::int64_t> attention_starts;
  std::int64_t valid_tokens = 0;  // labels other than no_label

  friend bool operator==(const Window&, const Window&) = default;
};

}  // namespace tessera::data

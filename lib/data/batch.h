// A micro-batch: windows laid end to end without padding.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "data/window.h"

namespace tessera::data {

struct Batch {
  at::Tensor ids;        // [tokens] int64, CPU
  at::Tensor labels;     // [tokens] int64; the loss leaves out tokens with no_label (-100)
  at::Tensor positions;  // [tokens] int64
  // Offsets of the ranges that attend only within themselves: 0, ..., tokens. `joined`: one range per window.
  std::vector<std::int64_t> attention_starts;
  // Offsets of the windows: 0, ..., tokens (number of windows + 1 entries).
  std::vector<std::int64_t> sequence_starts;
  std::int64_t valid_tokens = 0;  // labels other than no_label

  [[nodiscard]] std::int64_t tokens() const { return sequence_starts.back(); }
  [[nodiscard]] std::int64_t sequences() const { return static_cast<std::int64_t>(sequence_starts.size()) - 1; }
};

// Joins the windows in the order given. Without windows, the tensors have zero tokens and both lists are {0}.
[[nodiscard]] Batch make_batch(std::span<const Window> windows);

}  // namespace tessera::data

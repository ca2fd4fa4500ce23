// A micro-batch: windows laid end to end, without padding.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "data/window.h"

namespace tessera::data {

struct Batch {
  at::Tensor ids;        // [tokens] int64, CPU
  at::Tensor labels;     // [tokens] int64, no_label (-100) = not counted
  at::Tensor positions;  // [tokens] int64
  // Offsets of the ranges that attend within themselves: 0, ..., tokens. `joined`: one range a window.
  std::vector<std::int64_t> attention_starts;
  // Offsets of the windows: 0, ..., tokens; one more than there are windows.
  std::vector<std::int64_t> sequence_starts;
  std::int64_t valid_tokens = 0;  // labels other than no_label

  [[nodiscard]] std::int64_t tokens() const { return sequence_starts.back(); }
  [[nodiscard]] std::int64_t sequences() const { return static_cast<std::int64_t>(sequence_starts.size()) - 1; }
};

// The windows in the order given; none gives tensors of zero tokens and both lists {0}.
[[nodiscard]] Batch make_batch(std::span<const Window> windows);

}  // namespace tessera::data

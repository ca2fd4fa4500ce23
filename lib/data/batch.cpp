#include "data/batch.h"

#include <ATen/ops/empty.h>

#include <algorithm>

namespace tessera::data {
namespace {

// Concatenates one list of all windows.
at::Tensor join(std::span<const Window> windows, std::vector<std::int64_t> Window::*list, std::int64_t tokens) {
  const at::Tensor joined = at::empty({tokens}, at::TensorOptions().dtype(at::kLong));
  std::int64_t* to = joined.mutable_data_ptr<std::int64_t>();
  for (const Window& window : windows) to = std::copy((window.*list).begin(), (window.*list).end(), to);
  return joined;
}

}  // namespace

Batch make_batch(std::span<const Window> windows) {
  Batch batch;
  batch.attention_starts = {0};
  batch.sequence_starts = {0};
  for (const Window& window : windows) {
    const std::int64_t first = batch.sequence_starts.back();
    for (std::size_t i = 1; i < window.attention_starts.size(); ++i)
      batch.attention_starts.push_back(first + window.attention_starts[i]);
    batch.sequence_starts.push_back(first + static_cast<std::int64_t>(window.ids.size()));
    batch.valid_tokens += window.valid_tokens;
  }
  batch.ids = join(windows, &Window::ids, batch.tokens());
  batch.labels = join(windows, &Window::labels, batch.tokens());
  batch.positions = join(windows, &Window::positions, batch.tokens());
  return batch;
}

}  // namespace tessera::data

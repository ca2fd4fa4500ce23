// The kernels of a model's segments, by block.
#pragma once

#include <span>
#include <string_view>

#include "model/context.h"
#include "model/segment_view.h"

namespace tessera::model {

struct Kernel {
  std::string_view segment;  // Step::kind
  void (*run)(const SegmentView& view, const Context& context);
};

// The kernels of each block of architecture/blocks/; the head's takes more (see below).
[[nodiscard]] std::span<const Kernel> embedding_kernels();
[[nodiscard]] std::span<const Kernel> attention_kernels();
[[nodiscard]] std::span<const Kernel> dense_mlp_kernels();
[[nodiscard]] std::span<const Kernel> router_kernels();
[[nodiscard]] std::span<const Kernel> experts_kernels();

// Model::run_head and Model::logits.
[[nodiscard]] HeadSums run_head(const SegmentView& view, const Context& context, const StepFacts& facts);
[[nodiscard]] at::Tensor logits_of(const SegmentView& view, const Context& context);

}  // namespace tessera::model

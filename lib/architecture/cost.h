// Rough, stated counts of the work and memory of a step: products are counted exactly, elementwise passes not at all.
//
// Experts are met evenly, and a token sends rows_per_token() rows.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "architecture/model_config.h"
#include "architecture/value.h"

namespace tessera::architecture {

// The micro-batch that costs are counted for: sequences of equal length, and how many ranks share the experts.
struct MicroBatchSizes {
  std::int64_t tokens = 0;
  std::int64_t sequences = 1;
  std::int64_t owners = 1;
};

// The sizes of one micro-batch and its model, as floating numbers, in which products cannot overflow.
struct Sizes {
  Sizes(const ModelConfig& c, const MicroBatchSizes& batch);
  [[nodiscard]] double query() const { return heads * head_dim; }  // elements of a token's query
  [[nodiscard]] double key() const { return kv_heads * head_dim; }
  [[nodiscard]] double slots() const { return tokens * chosen; }
  [[nodiscard]] double distinct_ids() const;

  const ModelConfig& config;
  double tokens, sequences, hidden, vocabulary, heads, kv_heads, head_dim, experts, chosen, dense_inner, rows;
};

// What one segment computes and keeps.
struct Work {
  double forward_flops = 0;          // 2 x multiply-adds
  double backward_input_flops = 0;   // for the gradients of its inputs
  double backward_weight_flops = 0;  // for the gradients of its weights
  double kept_elements = 0;          // for backward, inputs included; what several segments keep counts for the first
};
using WorkOf = std::function<Work(const Sizes&)>;

// The work of multiplying `rows` rows of `in` elements by a weight [out, in]. It keeps nothing.
[[nodiscard]] Work product(double rows, double in, double out);
[[nodiscard]] Work operator+(const Work& a, const Work& b);

// Returns the size of a dim that the model alone decides; nothing for dims that follow from the batch or the layout.
[[nodiscard]] std::optional<std::int64_t> size_of(Dim dim, const ModelConfig& config);

// The rows that a token sends to `owners` ranks which share the experts evenly, if all choices of k of the E experts
// are equally likely: owners x (1 - prod_{j < k} (E - E / owners - j) / (E - j)), the expected number of owners that
// have one of its experts. 1 without experts.
[[nodiscard]] double rows_per_token(const ModelConfig& config, std::int64_t owners);

// Returns the number of elements of a value, on a rank that sends and receives its even share.
[[nodiscard]] double elements_of(ValueKind kind, const Sizes& sizes);

// Returns the bytes of a value whose type is `compute` of `compute_bytes`; wide numbers have at least four, indices
// eight.
[[nodiscard]] double value_bytes(ValueKind kind, const ModelConfig& config, const MicroBatchSizes& sizes,
                                 double compute_bytes);

}  // namespace tessera::architecture

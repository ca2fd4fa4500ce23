// Estimates of work and memory: products counted exactly, elementwise passes by their inputs and outputs.
#include <algorithm>

#include "architecture/architecture.h"
#include "base/error.h"

namespace tessera::architecture {
namespace {

// Sizes of one micro-batch as floating numbers, in which products cannot overflow.
struct Sizes {
  const ModelConfig& config;
  double tokens, sequences, hidden, vocabulary, heads, kv_heads, head_dim, experts, chosen, inner, dense_inner, rows;

  Sizes(const ModelConfig& c, const MicroBatchSizes& batch)
      : config(c),
        tokens(static_cast<double>(batch.tokens)),
        sequences(static_cast<double>(std::max<std::int64_t>(batch.sequences, 1))),
        hidden(static_cast<double>(c.hidden_size)),
        vocabulary(static_cast<double>(c.vocab_size)),
        heads(static_cast<double>(c.num_attention_heads)),
        kv_heads(static_cast<double>(c.num_key_value_heads)),
        head_dim(static_cast<double>(c.head_dim)),
        experts(static_cast<double>(c.num_experts)),
        chosen(static_cast<double>(c.num_experts_per_tok)),
        inner(static_cast<double>(c.moe_intermediate_size)),
        dense_inner(static_cast<double>(c.intermediate_size)),
        rows(tokens * rows_per_token(c, batch.owners)) {}

  [[nodiscard]] double query() const { return heads * head_dim; }
  [[nodiscard]] double key() const { return kv_heads * head_dim; }
  [[nodiscard]] double slots() const { return tokens * chosen; }
  [[nodiscard]] double distinct() const { return std::min(tokens, vocabulary); }
};

// 2 x multiply-adds of the products of a segment; elementwise work is left out.
double forward_flops(SegmentKind kind, const Sizes& s) {
  switch (kind) {
    case SegmentKind::project: return 2 * s.tokens * s.hidden * (s.query() + 2 * s.key());
    // Two products per head over the lower triangle of sequences of equal length.
    case SegmentKind::attend: return 2 * s.tokens * (s.tokens / s.sequences + 1) * s.query();
    case SegmentKind::output_product: return 2 * s.tokens * s.hidden * s.query();
    case SegmentKind::route: return 2 * s.tokens * s.hidden * s.experts;
    case SegmentKind::experts: return 6 * s.slots() * s.hidden * s.inner;
    case SegmentKind::dense: return 6 * s.tokens * s.hidden * s.dense_inner;
    case SegmentKind::head: return 2 * s.tokens * s.hidden * s.vocabulary;
    case SegmentKind::distinct_ids:
    case SegmentKind::lookup:
    case SegmentKind::expand:
    case SegmentKind::pack:
    case SegmentKind::merge: return 0;
  }
  return 0;
}

// Elements that backward needs of a segment, its inputs among them; what several segments keep counts for the first.
double kept_elements(SegmentKind kind, const Sizes& s) {
  switch (kind) {
    // Its input and that normed; query and key before their norms.
    case SegmentKind::project: return s.tokens * (2 * s.hidden + s.query() + s.key());
    // Query, key, value, the output, and the logarithm of the softmax's denominator.
    case SegmentKind::attend: return s.tokens * (2 * s.query() + 2 * s.key() + s.heads);
    // Residual and its norm (the experts' rows); logits, probabilities.
    case SegmentKind::route: return 2 * s.tokens * (s.hidden + s.experts);
    // Gate and up products.
    case SegmentKind::experts: return s.slots() * 2 * s.inner;
    // Residual and its norm; gate, up and their product.
    case SegmentKind::dense: return s.tokens * (2 * s.hidden + 3 * s.dense_inner);
    // The gradient of hidden, formed in the forward pass.
    case SegmentKind::head: return s.tokens * s.hidden;
    case SegmentKind::distinct_ids:
    case SegmentKind::lookup:
    case SegmentKind::expand:
    case SegmentKind::output_product:
    case SegmentKind::pack:
    case SegmentKind::merge: return 0;
  }
  return 0;
}

// The size of a dim on a rank that sends and receives its even share; counts of owners are left out.
double size_of(Dim dim, const Sizes& s) {
  if (const auto fixed = architecture::size_of(dim, s.config)) return static_cast<double>(*fixed);
  switch (dim) {
    case Dim::tokens: return s.tokens;
    case Dim::rows:
    case Dim::received_rows: return s.rows;
    case Dim::sequence_bounds:
    case Dim::document_bounds: return s.sequences + 1;
    case Dim::unique_ids:
    case Dim::wanted_ids: return s.distinct();
    case Dim::slots:
    case Dim::received_slots: return s.slots();
    case Dim::own_experts: return s.experts;
    case Dim::sets: return s.sequences;
    case Dim::owners:
    case Dim::sources: return 1;
    default: break;  // fixed by the model
  }
  base::expect(false, "dim {}", static_cast<int>(dim));
  return 0;
}

double elements_of(ValueKind kind, const Sizes& s) {
  double elements = 1;
  for (const Dim dim : traits_of(kind).dims) elements *= size_of(dim, s);
  return elements;
}

}  // namespace

double rows_per_token(const ModelConfig& config, std::int64_t owners) {
  const auto experts = static_cast<double>(config.num_experts), ranks = static_cast<double>(owners);
  double none = 1;  // the probability that an owner has none of the token's experts
  for (std::int64_t j = 0; j < std::min(config.num_experts_per_tok, config.num_experts); ++j)
    none *= std::max(0.0, experts - experts / ranks - static_cast<double>(j)) / (experts - static_cast<double>(j));
  return config.num_experts > 0 ? ranks * (1 - none) : 1;
}

double value_bytes(ValueKind kind, const ModelConfig& config, const MicroBatchSizes& sizes, double element_bytes) {
  constexpr double index_bytes = 8;
  return elements_of(kind, Sizes(config, sizes)) * (is_differentiable(kind) ? element_bytes : index_bytes);
}

std::optional<std::int64_t> size_of(Dim dim, const ModelConfig& config) {
  switch (dim) {
    case Dim::hidden: return config.hidden_size;
    case Dim::heads: return config.num_attention_heads;
    case Dim::kv_heads: return config.num_key_value_heads;
    case Dim::head_dim: return config.head_dim;
    case Dim::experts: return config.num_experts;
    case Dim::moe_layers: return config.moe_layers();
    default: return std::nullopt;
  }
}

StepCost Architecture::cost(const Step& step, const MicroBatchSizes& batch) const {
  constexpr double float_bytes = 4;
  const Sizes sizes(config_, batch);
  StepCost cost;
  if (step.type == Step::Type::segment) {
    cost.forward_flops = forward_flops(step.segment, sizes);
    cost.kept_bytes = kept_elements(step.segment, sizes) * float_bytes;
  }
  const auto add_written = [&](ValueId id) {
    if (is_differentiable(id.kind)) cost.written_bytes += elements_of(id.kind, sizes) * float_bytes;
  };
  for (const ValueId id : step.writes) add_written(id);
  for (const auto& [from, to] : step.moves) add_written(to);
  return cost;
}

}  // namespace tessera::architecture

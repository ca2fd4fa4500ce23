#include "architecture/cost.h"

#include <algorithm>

#include "base/error.h"

namespace tessera::architecture {
namespace {

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
    case Dim::wanted_ids: return s.distinct_ids();
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

}  // namespace

Sizes::Sizes(const ModelConfig& c, const MicroBatchSizes& batch)
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
      dense_inner(static_cast<double>(c.intermediate_size)),
      rows(tokens * rows_per_token(c, batch.owners)) {}

double Sizes::distinct_ids() const { return std::min(tokens, vocabulary); }

Work product(double rows, double in, double out) {
  const double flops = 2 * rows * in * out;
  return {.forward_flops = flops, .backward_input_flops = flops, .backward_weight_flops = flops};
}

Work operator+(const Work& a, const Work& b) {
  return {.forward_flops = a.forward_flops + b.forward_flops,
          .backward_input_flops = a.backward_input_flops + b.backward_input_flops,
          .backward_weight_flops = a.backward_weight_flops + b.backward_weight_flops,
          .kept_elements = a.kept_elements + b.kept_elements};
}

std::optional<std::int64_t> size_of(Dim dim, const ModelConfig& config) {
  switch (dim) {
    case Dim::hidden: return config.hidden_size;
    case Dim::heads: return config.num_attention_heads;
    case Dim::kv_heads: return config.num_key_value_heads;
    case Dim::head_dim: return config.head_dim;
    case Dim::rotary_pairs: return config.head_dim / 2;
    case Dim::experts: return config.num_experts;
    case Dim::expert_inner: return config.moe_intermediate_size;
    case Dim::moe_layers: return config.moe_layers();
    default: return std::nullopt;
  }
}

double rows_per_token(const ModelConfig& config, std::int64_t owners) {
  const auto experts = static_cast<double>(config.num_experts), ranks = static_cast<double>(owners);
  double none = 1;  // the probability that an owner has none of the token's experts
  for (std::int64_t j = 0; j < std::min(config.num_experts_per_tok, config.num_experts); ++j)
    none *= std::max(0.0, experts - experts / ranks - static_cast<double>(j)) / (experts - static_cast<double>(j));
  return config.num_experts > 0 ? ranks * (1 - none) : 1;
}

double elements_of(ValueKind kind, const Sizes& sizes) {
  double elements = 1;
  for (const Dim dim : traits_of(kind).dims) elements *= size_of(dim, sizes);
  return elements;
}

double value_bytes(ValueKind kind, const ModelConfig& config, const MicroBatchSizes& sizes, double compute_bytes) {
  const auto bytes_of = [&](NumberType type) {
    switch (type) {
      case NumberType::compute: return compute_bytes;
      case NumberType::wide: return std::max(compute_bytes, 4.0);
      case NumberType::index: return 8.0;
    }
    base::expect(false, "number type {}", static_cast<int>(type));
    return 0.0;
  };
  return elements_of(kind, Sizes(config, sizes)) * bytes_of(traits_of(kind).type);
}

}  // namespace tessera::architecture

#include "architecture/blocks/attention.h"

namespace tessera::architecture::attention {

using K = ValueKind;

namespace {

Work projections(const Sizes& s) {
  auto work = product(s.tokens, s.hidden, s.query() + 2 * s.key());
  // Its input and that normed; query and key before their norms.
  work.kept_elements = s.tokens * (2 * s.hidden + s.query() + s.key());
  return work;
}

// Two products for each head over the lower triangle of sequences of equal length, and four for their gradients.
Work causal_attention(const Sizes& s) {
  const double flops = 2 * s.tokens * (s.tokens / s.sequences + 1) * s.query();
  return {.forward_flops = flops,
          .backward_input_flops = 2 * flops,
          // Query, key, value, the output, and the logarithm of the softmax's denominator.
          .kept_elements = s.tokens * (2 * s.query() + 2 * s.key() + s.heads)};
}

void add_parameters(BlockBuilder& b, const ModelConfig& c) {
  const auto query_size = c.num_attention_heads * c.head_dim, key_size = c.num_key_value_heads * c.head_dim;
  const auto add = [&](std::string_view matrix, std::string_view bias, std::int64_t out, std::int64_t in) {
    b.parameter(matrix, {out, in});
    if (c.attention_bias) b.parameter(bias, {out}, Initial::zeros);
  };
  add(query, query_bias, query_size, c.hidden_size);
  add(key, key_bias, key_size, c.hidden_size);
  add(value, value_bias, key_size, c.hidden_size);
  add(output, output_bias, c.hidden_size, query_size);
  for (const auto norm : {query_norm, key_norm}) b.parameter(norm, {c.head_dim}, Initial::ones);
  b.parameter(input_norm, {c.hidden_size}, Initial::ones);
}

}  // namespace

Block block(const ModelConfig& config, std::int64_t layer, const std::string& unit) {
  BlockBuilder b(layer);
  add_parameters(b, config);
  std::vector<std::string_view> projected{input_norm, query, key, value}, last{output};
  if (config.attention_bias) {
    projected.insert(projected.end(), {query_bias, key_bias, value_bias});
    last.push_back(output_bias);
  }
  projected.insert(projected.end(), {query_norm, key_norm});

  b.use(b.segment(project, {b.here(K::hidden), {K::rotary_cosine}, {K::rotary_sine}},
                  {b.here(K::query), b.here(K::key), b.here(K::value)}, projections),
        unit, projected, plan::UseKind::whole)
      .recomputed = Recomputed::with_layer;
  auto& to_heads = b.exchange(sequence_to_heads, {{b.here(K::query), b.here(K::head_query)},
                                                  {b.here(K::key), b.here(K::head_key)},
                                                  {b.here(K::value), b.here(K::head_value)}});
  to_heads.axis = layout::DenseAxis::ulysses;
  to_heads.forward = to_heads.backward = Motion::heads;
  b.segment(attend, {b.here(K::head_query), b.here(K::head_key), b.here(K::head_value), {K::attention_starts}},
            {b.here(K::head_attention)}, causal_attention)
      .recomputed = Recomputed::with_layer;
  auto& to_sequence = b.exchange(heads_to_sequence, {{b.here(K::head_attention), b.here(K::attention)}});
  to_sequence.axis = layout::DenseAxis::ulysses;
  to_sequence.forward = to_sequence.backward = Motion::heads;
  b.use(b.segment(output_product, {b.here(K::attention)}, {b.here(K::attention_partial)},
                  [](const Sizes& s) { return product(s.tokens, s.query(), s.hidden); }),
        unit, last, plan::UseKind::whole)
      .recomputed = Recomputed::with_layer;
  auto& sum = b.exchange(sum_tensor_parallel, {{b.here(K::attention_partial), b.here(K::attention_output)}});
  sum.axis = layout::DenseAxis::tp;
  sum.forward = Motion::sum;
  sum.backward = Motion::copy;
  return b.take();
}

}  // namespace tessera::architecture::attention

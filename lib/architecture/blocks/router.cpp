#include "architecture/blocks/router.h"

namespace tessera::architecture::router {

using K = ValueKind;

namespace {

Work work(const Sizes& s) {
  auto sum = product(s.tokens, s.hidden, s.experts);
  // Residual and its norm (the experts' rows); logits, probabilities.
  sum.kept_elements = 2 * s.tokens * (s.hidden + s.experts);
  return sum;
}

}  // namespace

Block block(const ModelConfig& config, std::int64_t layer, const std::string& unit) {
  BlockBuilder b(layer);
  b.parameter(weight, {config.num_experts, config.hidden_size});
  b.parameter(norm, {config.hidden_size}, Initial::ones);
  auto& step = b.use(b.segment(route, {b.here(K::hidden), b.here(K::attention_output), {K::sequence_starts}},
                               {b.here(K::residual), b.here(K::normed), b.here(K::slot_token), b.here(K::slot_choice),
                                b.here(K::slot_weight), b.here(K::slot_count), b.here(K::router_probability),
                                b.here(K::router_count), b.here(K::router_z)},
                               work),
                     unit, {norm, weight}, plan::UseKind::whole);
  step.recomputed = Recomputed::with_layer;
  step.counts = {b.here(K::router_count)};
  return b.take();
}

}  // namespace tessera::architecture::router

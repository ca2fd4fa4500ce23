#include "architecture/blocks/head.h"

#include "architecture/blocks/embedding.h"

namespace tessera::architecture::head {

using K = ValueKind;

namespace {

Work work(const Sizes& s) {
  auto sum = product(s.tokens, s.hidden, s.vocabulary);
  sum.kept_elements = s.tokens * s.hidden;  // the gradient of hidden, formed in the forward pass
  return sum;
}

}  // namespace

Block block(const ModelConfig& config, config::BalanceLoss balance, const std::string& unit) {
  BlockBuilder b;
  b.parameter(norm, {config.hidden_size}, Initial::ones);
  if (!config.tie_word_embeddings) b.parameter(weight, {config.vocab_size, config.hidden_size});

  std::vector<ValueId> reads{{K::hidden, static_cast<std::int32_t>(config.num_hidden_layers)}, {K::labels}};
  const auto evaluation_reads = reads.size();
  const bool by_sequence = balance == config::BalanceLoss::sequence;
  for (std::int32_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    if (!config.is_moe_layer(layer)) continue;
    reads.insert(reads.end(), {{K::router_probability, layer}, {K::router_z, layer}});
    if (by_sequence) reads.push_back({K::router_count, layer});
  }
  if (config.moe_layers() > 0) reads.push_back({by_sequence ? K::sequence_starts : K::balance_count});
  auto& step = b.use(b.segment(segment, std::move(reads), {{K::loss}}, work), unit, {norm}, plan::UseKind::whole);
  step.uses.push_back(
      {weight, {std::string(config.tie_word_embeddings ? embedding::weight : weight), plan::UseKind::whole}});
  step.measures_loss = true;
  step.evaluation_reads = evaluation_reads;
  return b.take();
}

}  // namespace tessera::architecture::head

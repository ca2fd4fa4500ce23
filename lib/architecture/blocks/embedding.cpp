#include "architecture/blocks/embedding.h"

namespace tessera::architecture::embedding {

using K = ValueKind;

Block block(const ModelConfig& config, const std::string& unit) {
  BlockBuilder b;
  b.parameter(weight, {config.vocab_size, config.hidden_size});
  const auto owned = [](Step& step) -> Step& {
    step.owned = weight;
    return step;
  };
  const std::vector<ValueId> counts{{K::unique_count}, {K::wanted_count}};
  owned(b.segment(distinct_ids, {{K::ids}}, {{K::unique_ids}, {K::unique_inverse}, {K::unique_count}}));
  owned(b.exchange(id_counts, {{{K::unique_count}, {K::wanted_count}}}));
  owned(b.exchange(ids_to_owners, {{{K::unique_ids}, {K::wanted_ids}}}, counts));
  owned(b.use(b.segment(lookup, {{K::wanted_ids}}, {{K::found_rows}}), unit, {weight}, plan::UseKind::owned));
  owned(b.exchange(rows_from_owners, {{{K::found_rows}, {K::unique_rows}}}, counts));
  b.segment(expand, {{K::unique_rows}, {K::unique_inverse}, {K::positions}},
            {{K::hidden, 0}, {K::rotary_cosine}, {K::rotary_sine}});
  return b.take();
}

}  // namespace tessera::architecture::embedding

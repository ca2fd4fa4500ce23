#include "architecture/blocks/experts.h"

namespace tessera::architecture::experts {

using K = ValueKind;

namespace {

// Products of a slot's row are by matrices alone; what the function takes is kept.
Work work(const ExpertBody& body, const Sizes& s) {
  Work sum;
  for (const auto& matrix : body.matrices) {
    if (matrix.shape.size() != 3) continue;
    const auto size = [&](std::size_t dim) {
      return static_cast<double>(size_of(matrix.shape.begin()[dim], s.config).value());
    };
    sum = sum + product(s.slots(), size(2), size(1));
    if (matrix.use == ExpertMatrix::Use::into) sum.kept_elements += s.slots() * size(1);
  }
  return sum;
}

}  // namespace

Block block(const ModelConfig& config, std::int64_t layer, const ExpertBody& body, const std::string& unit) {
  BlockBuilder b(layer);
  std::vector<std::string_view> names;
  for (const auto& matrix : body.matrices) {
    std::vector<std::int64_t> shape;
    for (const auto dim : matrix.shape) shape.push_back(size_of(dim, config).value());
    names.push_back(matrix.name);
    b.expert_parameter(matrix.name, std::move(shape), matrix.initial);
  }
  if (!body.fused.empty()) b.fuse(body.fused_name, body.fused);
  const auto owned = [&](Step& step) -> Step& {
    step.owned = b.fqn(names.front());
    return step;
  };
  owned(b.segment(pack, {b.here(K::normed), b.here(K::slot_token), b.here(K::slot_weight), b.here(K::slot_count)},
                  {b.here(K::send_rows), b.here(K::send_weight), b.here(K::send_slot), b.here(K::row_token),
                   b.here(K::row_count), b.here(K::expert_count)}))
      .recomputed = Recomputed::with_layer;
  owned(b.exchange(row_counts, {{b.here(K::row_count), b.here(K::source_row_count)},
                                {b.here(K::expert_count), b.here(K::source_expert_count)}}));
  owned(b.exchange(
      dispatch,
      {{b.here(K::send_rows), b.here(K::rows)},
       {b.here(K::send_weight), b.here(K::weight)},
       {b.here(K::send_slot), b.here(K::slot)}},
      {b.here(K::row_count), b.here(K::expert_count), b.here(K::source_row_count), b.here(K::source_expert_count)}));
  auto& run = b.use(b.segment(experts,
                              {b.here(K::rows), b.here(K::weight), b.here(K::slot), b.here(K::source_row_count),
                               b.here(K::source_expert_count)},
                              {b.here(K::expert_rows)}, [&body](const Sizes& s) { return work(body, s); }),
                    unit, names, plan::UseKind::owned);
  run.recomputed = Recomputed::experts;
  run.body = &body;
  owned(b.exchange(combine, {{b.here(K::expert_rows), b.here(K::combined_rows)}},
                   {b.here(K::row_count), b.here(K::source_row_count)}));
  owned(b.segment(merge, {b.here(K::residual), b.here(K::combined_rows), b.here(K::row_token)}, {b.next(K::hidden)}))
      .recomputed = Recomputed::within_layer;
  return b.take();
}

}  // namespace tessera::architecture::experts

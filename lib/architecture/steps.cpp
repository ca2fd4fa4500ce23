#include "architecture/steps.h"

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <unordered_map>

#include "base/error.h"

namespace tessera::architecture {
namespace {

using K = ValueKind;
using Moves = std::vector<std::pair<ValueId, ValueId>>;

std::string_view name_of(SegmentKind kind) {
  switch (kind) {
    case SegmentKind::distinct_ids: return "distinct_ids";
    case SegmentKind::lookup: return "lookup";
    case SegmentKind::expand: return "expand";
    case SegmentKind::project: return "project";
    case SegmentKind::attend: return "attend";
    case SegmentKind::output_product: return "output_product";
    case SegmentKind::route: return "route";
    case SegmentKind::pack: return "pack";
    case SegmentKind::experts: return "experts";
    case SegmentKind::merge: return "merge";
    case SegmentKind::dense: return "dense";
    case SegmentKind::head: return "head";
  }
  base::expect(false, "segment kind {}", static_cast<int>(kind));
  return {};
}

std::string_view name_of(ExchangeKind kind) {
  switch (kind) {
    case ExchangeKind::id_counts: return "id_counts";
    case ExchangeKind::ids_to_owners: return "ids_to_owners";
    case ExchangeKind::rows_from_owners: return "rows_from_owners";
    case ExchangeKind::sequence_to_heads: return "sequence_to_heads";
    case ExchangeKind::heads_to_sequence: return "heads_to_sequence";
    case ExchangeKind::sum_tensor_parallel: return "sum_tensor_parallel";
    case ExchangeKind::row_counts: return "row_counts";
    case ExchangeKind::dispatch: return "dispatch";
    case ExchangeKind::combine: return "combine";
  }
  base::expect(false, "exchange kind {}", static_cast<int>(kind));
  return {};
}

// Collects steps; `layer` is that of the steps added from now on.
class Sequence {
 public:
  explicit Sequence(const ModelConfig& config) : config_(config) {}

  void set_layer(std::int64_t layer) { layer_ = static_cast<std::int32_t>(layer); }
  [[nodiscard]] ValueId here(K kind) const { return {kind, layer_}; }
  [[nodiscard]] ValueId next(K kind) const { return {kind, layer_ + 1}; }

  Step& segment(SegmentKind kind, std::vector<ValueId> reads, std::vector<ValueId> writes) {
    Step step;
    step.type = Step::Type::segment;
    step.segment = kind;
    step.layer = layer_;
    step.reads = std::move(reads);
    step.writes = std::move(writes);
    return steps_.emplace_back(std::move(step));
  }

  Step& exchange(ExchangeKind kind, Moves moves, std::vector<ValueId> reads = {}) {
    Step step;
    step.type = Step::Type::exchange;
    step.exchange = kind;
    step.layer = layer_;
    step.reads = std::move(reads);
    step.moves = std::move(moves);
    return steps_.emplace_back(std::move(step));
  }

  Step& use(Step& step, std::string unit, const std::vector<Role>& roles, plan::UseKind kind) const {
    step.unit = std::move(unit);
    for (const Role role : roles) {
      const Role stored = role == Role::head && config_.tie_word_embeddings ? Role::embedding : role;
      step.uses.push_back({role, {parameter_fqn(stored, layer_), kind}});
    }
    return step;
  }
  // The step's `owned`: the parameter of `role` in this layer.
  Step& between_owners(Step& step, Role role) const {
    step.owned = parameter_fqn(role, layer_);
    return step;
  }

  [[nodiscard]] std::vector<Step> take() { return std::move(steps_); }

 private:
  const ModelConfig& config_;
  std::int32_t layer_ = -1;
  std::vector<Step> steps_;
};

void add_embedding(Sequence& s) {
  const std::vector<ValueId> counts{{K::unique_count}, {K::wanted_count}};
  const auto owned = [&](Step& step) -> Step& { return s.between_owners(step, Role::embedding); };
  owned(s.segment(SegmentKind::distinct_ids, {{K::ids}}, {{K::unique_ids}, {K::unique_inverse}, {K::unique_count}}));
  owned(s.exchange(ExchangeKind::id_counts, {{{K::unique_count}, {K::wanted_count}}}));
  owned(s.exchange(ExchangeKind::ids_to_owners, {{{K::unique_ids}, {K::wanted_ids}}}, counts));
  owned(s.use(s.segment(SegmentKind::lookup, {{K::wanted_ids}}, {{K::found_rows}}), "embed", {Role::embedding},
              plan::UseKind::owned));
  owned(s.exchange(ExchangeKind::rows_from_owners, {{{K::found_rows}, {K::unique_rows}}}, counts));
  s.segment(SegmentKind::expand, {{K::unique_rows}, {K::unique_inverse}}, {{K::hidden, 0}});
}

void add_attention(Sequence& s, const ModelConfig& config, const std::string& unit) {
  std::vector<Role> projections{Role::input_norm, Role::query, Role::key, Role::value};
  std::vector<Role> output{Role::output};
  if (config.attention_bias) {
    projections.insert(projections.end(), {Role::query_bias, Role::key_bias, Role::value_bias});
    output.push_back(Role::output_bias);
  }
  projections.insert(projections.end(), {Role::query_norm, Role::key_norm});

  s.use(s.segment(SegmentKind::project, {s.here(K::hidden), {K::positions}},
                  {s.here(K::query), s.here(K::key), s.here(K::value)}),
        unit, projections, plan::UseKind::whole)
      .recomputed = Recomputed::with_layer;
  s.exchange(ExchangeKind::sequence_to_heads, {{s.here(K::query), s.here(K::head_query)},
                                               {s.here(K::key), s.here(K::head_key)},
                                               {s.here(K::value), s.here(K::head_value)}})
      .axis = "ulysses";
  s.segment(SegmentKind::attend,
            {s.here(K::head_query), s.here(K::head_key), s.here(K::head_value), {K::attention_starts}},
            {s.here(K::head_attention)})
      .recomputed = Recomputed::with_layer;
  s.exchange(ExchangeKind::heads_to_sequence, {{s.here(K::head_attention), s.here(K::attention)}}).axis = "ulysses";
  s.use(s.segment(SegmentKind::output_product, {s.here(K::attention)}, {s.here(K::attention_partial)}), unit, output,
        plan::UseKind::whole)
      .recomputed = Recomputed::with_layer;
  s.exchange(ExchangeKind::sum_tensor_parallel, {{s.here(K::attention_partial), s.here(K::attention_output)}}).axis =
      "tp";
}

void add_experts(Sequence& s, const std::string& unit, const std::string& expert_unit) {
  const auto owned = [&](Step& step) -> Step& { return s.between_owners(step, Role::experts_gate); };
  auto& route =
      s.use(s.segment(SegmentKind::route, {s.here(K::hidden), s.here(K::attention_output), {K::sequence_starts}},
                      {s.here(K::residual), s.here(K::normed), s.here(K::slot_token), s.here(K::slot_choice),
                       s.here(K::slot_weight), s.here(K::slot_count), s.here(K::router_probability),
                       s.here(K::router_count), s.here(K::router_z)}),
            unit, {Role::post_norm, Role::router}, plan::UseKind::whole);
  route.recomputed = Recomputed::with_layer;
  route.counts = {s.here(K::router_count)};
  owned(s.segment(SegmentKind::pack,
                  {s.here(K::normed), s.here(K::slot_token), s.here(K::slot_weight), s.here(K::slot_count)},
                  {s.here(K::send_rows), s.here(K::send_weight), s.here(K::send_slot), s.here(K::row_token),
                   s.here(K::row_count), s.here(K::expert_count)}))
      .recomputed = Recomputed::with_layer;
  owned(s.exchange(ExchangeKind::row_counts, {{s.here(K::row_count), s.here(K::source_row_count)},
                                              {s.here(K::expert_count), s.here(K::source_expert_count)}}));
  owned(s.exchange(
      ExchangeKind::dispatch,
      {{s.here(K::send_rows), s.here(K::rows)},
       {s.here(K::send_weight), s.here(K::weight)},
       {s.here(K::send_slot), s.here(K::slot)}},
      {s.here(K::row_count), s.here(K::expert_count), s.here(K::source_row_count), s.here(K::source_expert_count)}));
  s.use(s.segment(SegmentKind::experts,
                  {s.here(K::rows), s.here(K::weight), s.here(K::slot), s.here(K::source_row_count),
                   s.here(K::source_expert_count)},
                  {s.here(K::expert_rows)}),
        expert_unit, {Role::experts_gate, Role::experts_up, Role::experts_down}, plan::UseKind::owned)
      .recomputed = Recomputed::experts;
  owned(s.exchange(ExchangeKind::combine, {{s.here(K::expert_rows), s.here(K::combined_rows)}},
                   {s.here(K::row_count), s.here(K::source_row_count)}));
  owned(s.segment(SegmentKind::merge, {s.here(K::residual), s.here(K::combined_rows), s.here(K::row_token)},
                  {s.next(K::hidden)}))
      .recomputed = Recomputed::within_layer;
}

void add_dense(Sequence& s, const std::string& unit) {
  s.use(s.segment(SegmentKind::dense, {s.here(K::hidden), s.here(K::attention_output)}, {s.next(K::hidden)}), unit,
        {Role::post_norm, Role::dense_gate, Role::dense_up, Role::dense_down}, plan::UseKind::whole)
      .recomputed = Recomputed::with_layer;
}

void add_head(Sequence& s, const ModelConfig& config, config::BalanceLoss balance) {
  std::vector<ValueId> reads{{K::hidden, static_cast<std::int32_t>(config.num_hidden_layers)}, {K::labels}};
  const auto evaluation_reads = reads.size();
  for (std::int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    if (!config.is_moe_layer(layer)) continue;
    s.set_layer(layer);
    reads.insert(reads.end(), {s.here(K::router_probability), s.here(K::router_z)});
    if (balance == config::BalanceLoss::sequence) reads.push_back(s.here(K::router_count));
  }
  s.set_layer(-1);
  if (config.moe_layers() > 0)
    reads.push_back(balance == config::BalanceLoss::sequence ? ValueId{K::sequence_starts} : ValueId{K::balance_count});
  auto& head = s.use(s.segment(SegmentKind::head, std::move(reads), {{K::loss}}), "head",
                     {Role::final_norm, Role::head}, plan::UseKind::whole);
  head.measures_loss = true;
  head.evaluation_reads = evaluation_reads;
}

}  // namespace

std::string Step::name() const {
  std::string text(type == Type::segment ? name_of(segment) : name_of(exchange));
  if (layer >= 0) text += "[" + std::to_string(layer) + "]";
  return text;
}

std::vector<Step> steps_of(const ModelConfig& config, config::BalanceLoss balance) {
  Sequence s(config);
  add_embedding(s);
  for (std::int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    s.set_layer(layer);
    const std::string prefix = "layers." + std::to_string(layer) + ".";
    add_attention(s, config, prefix + "attention");
    if (config.is_moe_layer(layer)) {
      add_experts(s, prefix + "attention", prefix + "experts");
    } else {
      add_dense(s, prefix + "attention");
    }
  }
  add_head(s, config, balance);
  return s.take();
}

std::vector<plan::Unit> units_of(const std::vector<Step>& steps) {
  std::vector<plan::Unit> units;
  std::unordered_map<std::string_view, std::size_t> index;
  for (const Step& step : steps) {
    if (step.uses.empty()) continue;
    const auto [at, is_new] = index.try_emplace(step.unit, units.size());
    if (is_new) units.push_back({step.unit, {}});
    auto& uses = units[at->second].uses;
    for (const ParameterUse& used : step.uses)
      if (std::find(uses.begin(), uses.end(), used.use) == uses.end()) uses.push_back(used.use);
  }
  return units;
}

}  // namespace tessera::architecture

#include "architecture/value.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "base/error.h"

namespace tessera::architecture {
namespace {

using K = ValueKind;
using D = Dim;
using enum NumberType;
using enum Lifetime;
using M = Memory;

constexpr bool carried = true, none = false, watched = true;

// In the order of the enumeration.
constexpr std::array<ValueTraits, value_kinds> values{{
    {K::ids, "ids", {D::tokens}, index, M::host, none, batch},
    {K::labels, "labels", {D::tokens}, index, M::host, none, batch},
    {K::positions, "positions", {D::tokens}, index, M::host, none, batch},
    {K::attention_starts, "attention_starts", {D::document_bounds}, index, M::host, none, batch},
    {K::sequence_starts, "sequence_starts", {D::sequence_bounds}, index, M::host, none, batch},

    {K::unique_ids, "unique_ids", {D::unique_ids}, index, M::host, none, kept},
    {K::unique_inverse, "unique_inverse", {D::tokens}, index, M::run, none, kept},
    {K::unique_count, "unique_count", {D::owners}, index, M::host, none, kept},
    {K::wanted_count, "wanted_count", {D::sources}, index, M::host, none, kept},
    {K::wanted_ids, "wanted_ids", {D::wanted_ids}, index, M::host, none, kept},
    {K::found_rows, "found_rows", {D::wanted_ids, D::hidden}, compute, M::run, carried, recomputed},
    {K::unique_rows, "unique_rows", {D::unique_ids, D::hidden}, compute, M::run, carried, recomputed},
    {K::hidden, "hidden", {D::tokens, D::hidden}, compute, M::run, carried, recomputed, watched},
    {K::rotary_cosine, "rotary_cosine", {D::tokens, D::rotary_pairs}, wide, M::run, none, kept},
    {K::rotary_sine, "rotary_sine", {D::tokens, D::rotary_pairs}, wide, M::run, none, kept},

    {K::query, "query", {D::tokens, D::heads, D::head_dim}, compute, M::run, carried, recomputed},
    {K::key, "key", {D::tokens, D::kv_heads, D::head_dim}, compute, M::run, carried, recomputed},
    {K::value, "value", {D::tokens, D::kv_heads, D::head_dim}, compute, M::run, carried, recomputed},
    {K::head_query, "head_query", {D::tokens, D::heads, D::head_dim}, compute, M::run, carried, recomputed},
    {K::head_key, "head_key", {D::tokens, D::kv_heads, D::head_dim}, compute, M::run, carried, recomputed},
    {K::head_value, "head_value", {D::tokens, D::kv_heads, D::head_dim}, compute, M::run, carried, recomputed},
    {K::head_attention, "head_attention", {D::tokens, D::heads, D::head_dim}, compute, M::run, carried, recomputed},
    {K::attention, "attention", {D::tokens, D::heads, D::head_dim}, compute, M::run, carried, recomputed},
    {K::attention_partial, "attention_partial", {D::tokens, D::hidden}, compute, M::run, carried, recomputed, watched},
    {K::attention_output, "attention_output", {D::tokens, D::hidden}, compute, M::run, carried, recomputed},

    {K::residual, "residual", {D::tokens, D::hidden}, compute, M::run, carried, recomputed, watched},
    {K::normed, "normed", {D::tokens, D::hidden}, compute, M::run, carried, recomputed},
    {K::slot_token, "slot_token", {D::slots}, index, M::run, none, kept},
    {K::slot_choice, "slot_choice", {D::slots}, index, M::run, none, kept},
    {K::slot_weight, "slot_weight", {D::slots}, wide, M::run, carried, recomputed},
    {K::slot_count, "slot_count", {D::experts}, index, M::run, none, kept},
    {K::router_probability, "router_probability", {D::sets, D::experts}, wide, M::run, carried, recomputed},
    {K::router_count, "router_count", {D::sets, D::experts}, index, M::run, none, kept},
    {K::router_z, "router_z", {}, wide, M::run, carried, recomputed},

    {K::expert_count, "expert_count", {D::experts}, index, M::sender, none, kept},
    {K::row_token, "row_token", {D::rows}, index, M::run, none, kept},
    {K::row_count, "row_count", {D::owners}, index, M::host, none, kept},
    {K::send_rows, "send_rows", {D::rows, D::hidden}, compute, M::run, carried, recomputed},
    {K::send_weight, "send_weight", {D::slots}, wide, M::run, carried, recomputed},
    {K::send_slot, "send_slot", {D::slots}, index, M::run, none, kept},
    {K::rows, "rows", {D::received_rows, D::hidden}, compute, M::run, carried, recomputed},
    {K::weight, "weight", {D::received_slots}, wide, M::run, carried, recomputed},
    {K::slot, "slot", {D::received_slots}, index, M::run, none, kept},
    {K::source_row_count, "source_row_count", {D::sources}, index, M::host, none, kept},
    {K::source_expert_count, "source_expert_count", {D::sources, D::own_experts}, index, M::sender, none, kept},
    {K::expert_rows, "expert_rows", {D::received_rows, D::hidden}, compute, M::run, carried, recomputed},
    {K::combined_rows, "combined_rows", {D::rows, D::hidden}, compute, M::run, carried, recomputed},

    {K::balance_count, "balance_count", {D::moe_layers, D::sets, D::experts}, index, M::run, none, kept},
    {K::loss, "loss", {}, wide, M::run, carried, recomputed},
}};

constexpr std::array<std::string_view, dim_symbols> dim_names{
    "tokens",   "sequences + 1", "ranges + 1",   "unique ids", "wanted ids",   "hidden", "heads",
    "kv heads", "head dim",      "rotary pairs", "experts",    "expert inner", "slots",  "received slots",
    "rows",     "received rows", "owners",       "sources",    "own experts",  "sets",   "MoE layers"};

constexpr bool in_order() {
  for (std::size_t i = 0; i < values.size(); ++i)
    if (static_cast<std::size_t>(values[i].kind) != i) return false;
  return true;
}
static_assert(in_order());

std::string_view name(NumberType type) {
  switch (type) {
    case compute: return "compute";
    case wide: return "wide";
    case index: return "index";
  }
  base::expect(false, "number type {}", static_cast<int>(type));
  return {};
}

}  // namespace

const ValueTraits& traits_of(ValueKind kind) { return values[static_cast<std::size_t>(kind)]; }

std::string_view name(Dim dim) { return dim_names[static_cast<std::size_t>(dim)]; }

std::string name(ValueId id) {
  std::string text(name(id.kind));
  if (id.layer >= 0) text += "[" + std::to_string(id.layer) + "]";
  return text;
}

std::string describe(ValueKind kind) {
  const auto& traits = traits_of(kind);
  std::vector<std::string_view> dims;
  for (const Dim dim : traits.dims) dims.push_back(name(dim));
  return fmt::format("{} [{}] {}", traits.name, fmt::join(dims, ", "), name(traits.type));
}

Split split_of(Dim dim) {
  switch (dim) {
    case D::owners:
    case D::sources: return {SplitBy::one_each, {}};
    case D::experts: return {SplitBy::experts, {}};
    case D::unique_ids: return {SplitBy::counts, K::unique_count};
    case D::wanted_ids: return {SplitBy::counts, K::wanted_count};
    case D::rows: return {SplitBy::counts, K::row_count};
    case D::received_rows: return {SplitBy::counts, K::source_row_count};
    case D::slots: return {SplitBy::counts_of_experts, K::expert_count};
    case D::received_slots: return {SplitBy::counts, K::source_expert_count};
    default: break;
  }
  base::expect(false, "no exchange of rows splits {}", name(dim));
  return {};
}

}  // namespace tessera::architecture

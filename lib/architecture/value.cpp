#include "architecture/value.h"

#include <array>
#include <cstddef>

namespace tessera::architecture {
namespace {

enum class Gradient : std::uint8_t { none, carried };
enum class Lifetime : std::uint8_t { recomputed, kept };

struct Traits {
  ValueKind kind;
  std::string_view name;
  Gradient gradient;
  Lifetime lifetime;
};

using enum Gradient;
using enum Lifetime;
using K = ValueKind;

// In the order of the enumeration.
constexpr std::array traits{
    Traits{K::ids, "ids", none, kept},
    Traits{K::labels, "labels", none, kept},
    Traits{K::positions, "positions", none, kept},
    Traits{K::attention_starts, "attention_starts", none, kept},
    Traits{K::sequence_starts, "sequence_starts", none, kept},
    Traits{K::unique_ids, "unique_ids", none, kept},
    Traits{K::unique_inverse, "unique_inverse", none, kept},
    Traits{K::unique_count, "unique_count", none, kept},
    Traits{K::wanted_count, "wanted_count", none, kept},
    Traits{K::wanted_ids, "wanted_ids", none, kept},
    Traits{K::found_rows, "found_rows", carried, recomputed},
    Traits{K::unique_rows, "unique_rows", carried, recomputed},
    Traits{K::hidden, "hidden", carried, recomputed},
    Traits{K::query, "query", carried, recomputed},
    Traits{K::key, "key", carried, recomputed},
    Traits{K::value, "value", carried, recomputed},
    Traits{K::head_query, "head_query", carried, recomputed},
    Traits{K::head_key, "head_key", carried, recomputed},
    Traits{K::head_value, "head_value", carried, recomputed},
    Traits{K::head_attention, "head_attention", carried, recomputed},
    Traits{K::attention, "attention", carried, recomputed},
    Traits{K::attention_partial, "attention_partial", carried, recomputed},
    Traits{K::attention_output, "attention_output", carried, recomputed},
    Traits{K::residual, "residual", carried, recomputed},
    Traits{K::normed, "normed", carried, recomputed},
    Traits{K::slot_token, "slot_token", none, kept},
    Traits{K::slot_choice, "slot_choice", none, kept},
    Traits{K::slot_weight, "slot_weight", carried, recomputed},
    Traits{K::expert_count, "expert_count", none, kept},
    Traits{K::router_probability, "router_probability", carried, recomputed},
    Traits{K::router_count, "router_count", none, kept},
    Traits{K::router_z, "router_z", carried, recomputed},
    Traits{K::row_token, "row_token", none, kept},
    Traits{K::row_count, "row_count", none, kept},
    Traits{K::send_rows, "send_rows", carried, recomputed},
    Traits{K::send_weight, "send_weight", carried, recomputed},
    Traits{K::send_slot, "send_slot", none, kept},
    Traits{K::rows, "rows", carried, recomputed},
    Traits{K::weight, "weight", carried, recomputed},
    Traits{K::slot, "slot", none, kept},
    Traits{K::source_row_count, "source_row_count", none, kept},
    Traits{K::source_expert_count, "source_expert_count", none, kept},
    Traits{K::expert_rows, "expert_rows", carried, recomputed},
    Traits{K::combined_rows, "combined_rows", carried, recomputed},
    Traits{K::balance_count, "balance_count", none, kept},
    Traits{K::loss, "loss", carried, recomputed},
};

constexpr bool in_order() {
  for (std::size_t i = 0; i < traits.size(); ++i)
    if (static_cast<std::size_t>(traits[i].kind) != i) return false;
  return static_cast<std::size_t>(K::loss) + 1 == traits.size();
}
static_assert(in_order());

constexpr const Traits& traits_of(ValueKind kind) { return traits[static_cast<std::size_t>(kind)]; }

}  // namespace

std::string_view name(ValueKind kind) { return traits_of(kind).name; }

std::string name(ValueId id) {
  std::string text(name(id.kind));
  if (id.layer >= 0) text += "[" + std::to_string(id.layer) + "]";
  return text;
}

bool is_differentiable(ValueKind kind) { return traits_of(kind).gradient == carried; }

bool is_kept(ValueKind kind) { return traits_of(kind).lifetime == kept; }

}  // namespace tessera::architecture

// Named values: what segments read and write, and exchanges move.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

namespace tessera::architecture {

// A micro-batch is T tokens in flat order, without padding. V: vocabulary, H: hidden_size, E: experts, D: head_dim,
// U: distinct ids of this rank, W: ids asked of this rank, R: rows (distinct (token, owner) pairs) that this rank
// sends, R': rows that it received, S, S': slots sent and received, O: owners, P: sources, G: sets over which the
// balance is counted (1, or one per sequence).
enum class ValueKind : std::uint8_t {
  // batch
  ids,               // [T] int64
  labels,            // [T] int64, -100: no target
  positions,         // [T] int64
  attention_starts,  // [documents + 1] int64 on the CPU: ranges of tokens that see each other
  sequence_starts,   // [sequences + 1] int64 on the CPU: tokens of each sequence
  // embedding
  unique_ids,      // [U] int64, ascending
  unique_inverse,  // [T] int64: which unique id each token has
  unique_count,    // [O] int64 on the CPU: unique ids that each owner has
  wanted_count,    // [P] int64 on the CPU: ids that each source asks of this rank
  wanted_ids,      // [W] int64: ids asked of this rank, by source, then ascending
  found_rows,      // [W, H]
  unique_rows,     // [U, H]
  hidden,          // [T, H]; of layer i: its input; hidden of layer L: input of the head
  // attention
  query,              // [T, heads, D]
  key,                // [T, kv_heads, D]
  value,              // [T, kv_heads, D]
  head_query,         // the same three with this rank's heads of all tokens of its sequences
  head_key,           //
  head_value,         //
  head_attention,     // [T, heads, D]
  attention,          // [T, heads, D]
  attention_partial,  // [T, H], this tensor-parallel rank's part
  attention_output,   // [T, H], their sum
  // routing
  residual,            // [T, H]: hidden + attention_output
  normed,              // [T, H]: input of router and experts
  slot_token,          // [S] int64, slots sorted by expert, then token
  slot_choice,         // [S] int64: index into the flat [T, E] router probabilities
  slot_weight,         // [S]
  expert_count,        // [E] int64: slots of each expert on this rank
  router_probability,  // [G, E]: sum of the tokens' probabilities per set
  router_count,        // [G, E] int64: slots per set
  router_z,            // []: sum of logsumexp(logits)^2
  // dispatch
  row_token,            // [R] int64: token of each row, by owner, then token
  row_count,            // [O] int64 on the CPU: rows for each owner
  send_rows,            // [R, H]
  send_weight,          // [S]
  send_slot,            // [S] int64: row of each slot, counted within its owner's rows
  rows,                 // [R', H], by source
  weight,               // [S'], by source, then expert
  slot,                 // [S'] int64: row of each slot, counted within its source's rows
  source_row_count,     // [P] int64 on the CPU
  source_expert_count,  // [P, local experts] int64 on the CPU; from one source also [local experts]
  expert_rows,          // [R', H]: weighted sum of the local experts' outputs per row
  combined_rows,        // [R, H]
  // head
  balance_count,  // [moe layers, G, E] int64: slots summed over the ranks of the micro-step
  loss,           // []: what backward starts from
};

struct ValueId {
  ValueKind kind{};
  std::int32_t layer = -1;  // -1: belongs to no layer
  friend auto operator<=>(const ValueId&, const ValueId&) = default;
};

[[nodiscard]] std::string_view name(ValueKind kind);

// "hidden[3]", "ids".
[[nodiscard]] std::string name(ValueId id);

// The value carries a gradient.
[[nodiscard]] bool is_differentiable(ValueKind kind);

// Written once, in the first forward, and handed to every recomputation: slots and counts are kept, never recomputed.
[[nodiscard]] bool is_kept(ValueKind kind);

}  // namespace tessera::architecture

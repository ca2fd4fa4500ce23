// Named values: segments read and write them, exchanges move them. One table (value.cpp) has a row for each kind.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

namespace tessera::architecture {

// Shapes, types and lifetimes stand in the rows of value.cpp.
enum class ValueKind : std::uint8_t {
  // batch
  ids,
  labels,  // -100: the token has no target
  positions,
  attention_starts,  // bounds of the ranges of tokens that see each other
  sequence_starts,   // bounds of the sequences
  // embedding
  unique_ids,      // ascending
  unique_inverse,  // which unique id each token has
  unique_count,    // unique ids that each owner has
  wanted_count,    // ids that each source asks of this rank
  wanted_ids,      // ids asked of this rank, by source, then ascending
  found_rows,
  unique_rows,
  hidden,         // of layer i: its input; hidden of layer L: the input of the head
  rotary_cosine,  // of each token's position, for all layers
  rotary_sine,
  // attention
  query,
  key,
  value,
  head_query,  // the same three with this rank's heads of all tokens of its sequences
  head_key,
  head_value,
  head_attention,
  attention,
  attention_partial,  // this tensor-parallel rank's part
  attention_output,   // the sum of the parts
  // routing
  residual,     // hidden + attention_output
  normed,       // the input of router and experts
  slot_token,   // slots sorted by expert, then token
  slot_choice,  // index into the flat [tokens, experts] router probabilities
  slot_weight,
  slot_count,          // slots of each expert on this rank
  router_probability,  // sum of the tokens' probabilities per set
  router_count,        // slots per set
  router_z,            // sum of logsumexp(logits)^2
  // dispatch
  expert_count,  // slot_count again, where who sends can read it
  row_token,     // token of each row, by owner, then token
  row_count,     // rows for each owner
  send_rows,
  send_weight,
  send_slot,            // row of each slot, counted within its owner's rows
  rows,                 // by source
  weight,               // by source, then expert
  slot,                 // row of each slot, counted within its source's rows
  source_row_count,     // rows from each source
  source_expert_count,  // slots from each source, by this rank's experts
  expert_rows,          // weighted sum of the local experts' outputs per row
  combined_rows,
  // head
  balance_count,  // slots summed over the ranks of the micro-step
  loss,           // what backward starts from
};

inline constexpr std::size_t value_kinds = static_cast<std::size_t>(ValueKind::loss) + 1;

// The symbols of shapes. A micro-batch is `tokens` tokens in flat order, without padding. A row is a distinct (token,
// owner) pair, a slot a (token, expert) pair; owners and sources are the ranks that share experts or embedding rows.
enum class Dim : std::uint8_t {
  tokens,
  sequence_bounds,  // sequences + 1
  document_bounds,  // ranges of attention + 1
  unique_ids,       // distinct ids of this rank
  wanted_ids,       // ids asked of this rank
  hidden,
  heads,
  kv_heads,
  head_dim,
  rotary_pairs,  // head_dim / 2
  experts,
  expert_inner,    // moe_intermediate_size
  slots,           // of this rank's tokens
  received_slots,  // of this rank's experts
  rows,            // that this rank sends
  received_rows,
  owners,
  sources,
  own_experts,  // of this rank
  sets,         // over which the balance is counted: 1, or one per sequence
  moe_layers,
};

inline constexpr std::size_t dim_symbols = static_cast<std::size_t>(Dim::moe_layers) + 1;

[[nodiscard]] std::string_view name(Dim dim);

// Up to three dims; none: a number.
class Dims {
 public:
  constexpr Dims(std::initializer_list<Dim> dims) : count_(dims.size()) {
    std::size_t k = 0;
    for (const Dim dim : dims) list_[k++] = dim;
  }
  [[nodiscard]] constexpr const Dim* begin() const { return list_.data(); }
  [[nodiscard]] constexpr const Dim* end() const { return list_.data() + count_; }
  [[nodiscard]] constexpr std::size_t size() const { return count_; }
  [[nodiscard]] constexpr Dim front() const { return list_[0]; }

 private:
  std::array<Dim, 3> list_{};
  std::size_t count_;
};

// compute and wide: the run's types of these names (device::Numbers); index: int64.
enum class NumberType : std::uint8_t { compute, wide, index };

// Whose memory has the value: run: where the run computes; host: the host's, which reads it; sender: the host's if
// several ranks share what it counts (who sends must know how much), else wherever it was made.
enum class Memory : std::uint8_t { run, host, sender };

// batch: there before the first instruction. kept: written by the first forward and handed to every recomputation, for
// slots and counts are never recomputed. recomputed: written again by a recomputation.
enum class Lifetime : std::uint8_t { batch, kept, recomputed };

struct ValueTraits {
  ValueKind kind{};
  std::string_view name;
  Dims dims;
  NumberType type{};
  Memory memory{};
  bool carries_gradient = false;
  Lifetime lifetime{};
  bool is_watched = false;  // numbers in it that are not finite are told by the layer that wrote it
};

[[nodiscard]] const ValueTraits& traits_of(ValueKind kind);

struct ValueId {
  ValueKind kind{};
  std::int32_t layer = -1;  // -1: belongs to no layer
  friend auto operator<=>(const ValueId&, const ValueId&) = default;
};

[[nodiscard]] inline std::string_view name(ValueKind kind) { return traits_of(kind).name; }
// "hidden[3]", "ids".
[[nodiscard]] std::string name(ValueId id);
// "hidden [tokens, hidden] compute".
[[nodiscard]] std::string describe(ValueKind kind);

[[nodiscard]] inline bool is_differentiable(ValueKind kind) { return traits_of(kind).carries_gradient; }
[[nodiscard]] inline bool is_batch(ValueKind kind) { return traits_of(kind).lifetime == Lifetime::batch; }
[[nodiscard]] inline bool is_watched(ValueKind kind) { return traits_of(kind).is_watched; }
// A recomputation is handed the value: slots, counts, and the batch itself.
[[nodiscard]] inline bool is_kept(ValueKind kind) { return traits_of(kind).lifetime != Lifetime::recomputed; }

// What says how many of a dim's entries go to, or come from, each rank of a group. one_each: one a rank. experts: as
// many as the rank has experts. counts: the value `counts` has the number for each rank. counts_of_experts: `counts`
// has the number for each expert, which are added up for the rank that has them.
enum class SplitBy : std::uint8_t { one_each, experts, counts, counts_of_experts };
struct Split {
  SplitBy by{};
  ValueKind counts{};
};

// Precondition: `dim` is the first dim of a value that an exchange of rows moves.
[[nodiscard]] Split split_of(Dim dim);

}  // namespace tessera::architecture

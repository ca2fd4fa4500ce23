// The named values that segments read and write and that exchanges move. A table in value.cpp has a row for each kind.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

namespace tessera::architecture {

// The rows of value.cpp give the shape, the type and the lifetime of each kind.
enum class ValueKind : std::uint8_t {
  // batch
  ids,
  labels,  // -100: the token has no target
  positions,
  attention_starts,  // bounds of the ranges of tokens that see each other
  sequence_starts,   // bounds of the sequences
  // embedding
  unique_ids,      // ascending
  unique_inverse,  // the index of each token's id among the unique ids
  unique_count,    // number of unique ids that each owner has
  wanted_count,    // number of ids that each source asks of this rank
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
  expert_count,  // slot_count in memory that the sender reads
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
  loss,           // the number that backward starts from
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
  rows,            // sent by this rank
  received_rows,
  owners,
  sources,
  own_experts,  // of this rank
  sets,         // over which the balance is counted: 1, or one per sequence
  moe_layers,
};

inline constexpr std::size_t dim_symbols = static_cast<std::size_t>(Dim::moe_layers) + 1;

[[nodiscard]] std::string_view name(Dim dim);

// The dims of a shape: up to three; a number has none.
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

// `compute` and `wide` are the run's types of these names (device::Numbers), `index` is int64.
enum class NumberType : std::uint8_t { compute, wide, index };

// The memory that a value is in.
//   run     that of the place where the run computes
//   host    the host's, because the host reads the value
//   sender  the host's if several ranks share the rows that the value counts, because a sender must know their number;
//           else the memory where the value was made
enum class Memory : std::uint8_t { run, host, sender };

// The time for which a value lasts.
//   batch       it is an input of the program
//   kept        the first forward writes it and every recomputation gets it; slots and counts are never recomputed
//   recomputed  a recomputation writes it again
enum class Lifetime : std::uint8_t { batch, kept, recomputed };

struct ValueTraits {
  ValueKind kind{};
  std::string_view name;
  Dims dims;
  NumberType type{};
  Memory memory{};
  bool carries_gradient = false;
  Lifetime lifetime{};
  bool is_watched = false;  // the executor reports its first layer with a number that is not finite
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
// Returns whether a recomputation gets the value instead of writing it: slots, counts, and the batch itself.
[[nodiscard]] inline bool is_kept(ValueKind kind) { return traits_of(kind).lifetime != Lifetime::recomputed; }

// The rule that divides the entries of a dim among the ranks of a group, to which they go or from which they come.
//   one_each           each rank has one entry
//   experts            each rank has as many entries as experts
//   counts             the value `counts` has the number of entries of each rank
//   counts_of_experts  `counts` has the number of entries of each expert; a rank has the sum over its experts
enum class SplitBy : std::uint8_t { one_each, experts, counts, counts_of_experts };
struct Split {
  SplitBy by{};
  ValueKind counts{};
};

// Precondition: `dim` is the first dim of a value that an exchange of rows moves.
[[nodiscard]] Split split_of(Dim dim);

}  // namespace tessera::architecture

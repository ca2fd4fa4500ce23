// A model as data: its parameters, its steps (segments and the exchanges between them), and which parameters travel
// together.
//
// The finest cut of the model (DESIGN: "Model as segments"). Composed without exchanges the segments are the plain
// single-process model. Nothing here computes: `model` runs segments, `program` orders them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "architecture/model_config.h"
#include "architecture/value.h"
#include "base/parameter_spec.h"
#include "config/settings.h"
#include "plan/unit.h"

namespace tessera::architecture {

// What a parameter is to its segment. The FQN of (role, layer) is HuggingFace's name (see parameter_fqn).
enum class Role : std::uint8_t {
  embedding,
  input_norm,
  query,
  key,
  value,
  query_bias,
  key_bias,
  value_bias,
  output,
  output_bias,
  query_norm,
  key_norm,
  post_norm,
  router,
  experts_gate,
  experts_up,
  experts_down,
  dense_gate,
  dense_up,
  dense_down,
  final_norm,
  head,
  count_  // number of roles
};

enum class SegmentKind : std::uint8_t {
  distinct_ids,
  lookup,
  expand,
  project,
  attend,
  output_product,
  route,
  pack,
  experts,
  merge,
  dense,  // residual, norm, SwiGLU, residual
  head,
};

// Counts travel first, once: whatever follows knows how much it receives.
enum class ExchangeKind : std::uint8_t {
  id_counts,
  ids_to_owners,
  rows_from_owners,
  sequence_to_heads,
  heads_to_sequence,
  sum_tensor_parallel,
  row_counts,
  dispatch,
  combine
};

// The role is what the segment takes the parameter for: a tied head is {head, "model.embed_tokens.weight"}.
struct ParameterUse {
  Role role{};
  plan::Use use;
};

// When a segment runs again before its backward. never: not at all. with_layer: where whole layers are recomputed.
// within_layer: there too, but not as a chain of its own, where it would cost as much as it frees. experts: also where
// only experts are recomputed, as a chain of its own.
enum class Recomputed : std::uint8_t { never, with_layer, within_layer, experts };

// One step of the model's finest cut. A segment computes; an exchange moves `moves[k].first` to `moves[k].second`, and
// with one rank in its group is the identity that gives the second the value of the first. `program` and `executor` go
// by these fields alone: they know no segment, exchange or value by its name.
struct Step {
  enum class Type : std::uint8_t { segment, exchange };
  Type type = Type::segment;
  SegmentKind segment{};
  ExchangeKind exchange{};
  std::int32_t layer = -1;
  std::vector<ValueId> reads;   // of an exchange: the counts that it needs, in both directions
  std::vector<ValueId> writes;  // of a segment
  std::vector<std::pair<ValueId, ValueId>> moves;
  std::vector<ParameterUse> uses;
  std::string unit;  // name of the unit that holds the uses; empty without uses
  // FQN of the parameter whose dim 0 is shared among owners: an exchange goes between them, a segment sorts by them.
  std::string owned;
  std::string axis;  // of an exchange that is not between owners: the axis over whose ranks it goes
  Recomputed recomputed = Recomputed::never;
  std::vector<ValueId> counts;       // those of its writes that count slots per expert
  bool measures_loss = false;        // the last segment: it forms the loss and its own backward
  std::size_t evaluation_reads = 0;  // so many of its first reads are all that it needs to measure an evaluation

  [[nodiscard]] std::string name() const;  // "project[3]", "dispatch[3]", "head"
};

// The micro-batch that costs are counted for: sequences of equal length, and how many ranks share the experts.
struct MicroBatchSizes {
  std::int64_t tokens = 0;
  std::int64_t sequences = 1;
  std::int64_t owners = 1;
};

// A rough, stated count of work and memory of a step; experts are met evenly, and a token sends rows_per_token() rows.
// Backward takes twice the forward's work.
struct StepCost {
  double forward_flops = 0;  // 2 x multiply-adds
  double kept_bytes = 0;     // kept for backward, the inputs included (float32)
  double written_bytes = 0;  // its differentiable outputs, of an exchange what it delivers (float32)
};

class Architecture {
 public:
  Architecture(ModelConfig config, config::BalanceLoss balance);

  [[nodiscard]] const ModelConfig& config() const { return config_; }
  [[nodiscard]] config::BalanceLoss balance() const { return balance_; }
  // Every parameter once, in HuggingFace's order of modules; a tied head is no parameter of its own.
  [[nodiscard]] const std::vector<base::ParameterSpec>& parameters() const { return parameters_; }
  // Precondition: the model has the parameter.
  [[nodiscard]] const std::vector<std::int64_t>& shape_of(std::string_view fqn) const;
  // Steps in forward order: embedding, layers, head.
  [[nodiscard]] const std::vector<Step>& steps() const { return steps_; }
  // "embed", per layer "layers.<i>.attention" (attention, norms, router; also a dense layer's MLP) and
  // "layers.<i>.experts", "head" (final norm and head; a tied head uses the embedding whole here).
  [[nodiscard]] const std::vector<plan::Unit>& units() const { return units_; }
  // The sum of all counts of a micro-step over its ranks, as the last segment reads it; nothing if it reads none.
  [[nodiscard]] std::optional<ValueId> summed_counts() const;
  [[nodiscard]] std::int64_t total_parameters() const;
  // Parameters that one token meets: of the experts only the chosen ones.
  [[nodiscard]] std::int64_t active_parameters() const;
  [[nodiscard]] StepCost cost(const Step& step, const MicroBatchSizes& sizes) const;

 private:
  ModelConfig config_;
  config::BalanceLoss balance_;
  std::vector<base::ParameterSpec> parameters_;
  std::vector<Step> steps_;
  std::vector<plan::Unit> units_;
};

// "model.layers.3.mlp.experts.gate_proj"; `layer` is ignored for roles outside the layers.
[[nodiscard]] std::string parameter_fqn(Role role, std::int64_t layer);

// The inverse of parameter_fqn; nothing if no role has that name.
[[nodiscard]] std::optional<Role> role_of(std::string_view fqn);

// Norms' gains and biases: vectors, as against the matrices and stacks that products use.
[[nodiscard]] bool is_norm(Role role);
[[nodiscard]] bool is_bias(Role role);

// Shape as HuggingFace/VeOmni: experts gate, up [E, I, H], down [E, H, I]; linear [out, in]; embedding [V, H].
[[nodiscard]] std::vector<std::int64_t> parameter_shape(Role role, const ModelConfig& config);

// Of a dim that the model alone decides; nothing for dims that follow from the batch or the layout.
[[nodiscard]] std::optional<std::int64_t> size_of(Dim dim, const ModelConfig& config);

// The rows that a token sends to `owners` ranks which share the experts evenly, if all choices of k of the E experts
// are equally likely: owners x (1 - prod_{j < k} (E - E / owners - j) / (E - j)), the expected number of owners that
// have one of its experts. 1 without experts.
[[nodiscard]] double rows_per_token(const ModelConfig& config, std::int64_t owners);

// Bytes of a value with `element_bytes` per floating element (dispatch assumed even).
[[nodiscard]] double value_bytes(ValueKind kind, const ModelConfig& config, const MicroBatchSizes& sizes,
                                 double element_bytes);

}  // namespace tessera::architecture

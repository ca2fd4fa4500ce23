// A block: one piece of a model (attention, the experts of a layer, ...) as data, its parameters and its steps.
//
// blocks/ has one file per block, families/ one per family of models, which lists the blocks. The file of the same name
// in lib/model/blocks/ computes a block's segments.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "architecture/cost.h"
#include "architecture/model_config.h"
#include "architecture/value.h"
#include "base/parameter_spec.h"
#include "layout/group_id.h"
#include "plan/unit.h"

namespace tessera::architecture {

// How a parameter begins. normal: with standard deviation `initializer_range`.
enum class Initial : std::uint8_t { normal, ones, zeros };

struct Parameter {
  base::ParameterSpec spec;
  Initial initial = Initial::normal;
  bool of_experts = false;  // dim 0 counts experts, of which a token meets `num_experts_per_tok`
};

// A segment's use of a parameter. `name` is what the segment calls it; a tied head calls the embedding
// "lm_head.weight".
struct ParameterUse {
  std::string_view name;
  plan::Use use;
};

// When a segment runs again before its backward. never: not at all. with_layer: where whole layers are recomputed.
// within_layer: there too, but not as a chain of its own, where it would cost as much as it frees. experts: also where
// only experts are recomputed, as a chain of its own.
enum class Recomputed : std::uint8_t { never, with_layer, within_layer, experts };

// How an exchange moves its values among the ranks of its group. rows: each rank sends rows of dim 0 to each other one,
// as many as counts say. heads: a rank's tokens with all heads become all tokens with its heads, or the reverse.
// sum: parts of a value are added up. copy: every rank passes on what it has.
enum class Motion : std::uint8_t { rows, heads, sum, copy };

struct ExpertBody;  // expert_body.h

// One step of the model's finest cut. A segment computes; an exchange moves `moves[k].first` to `moves[k].second`, and
// with one rank in its group is the identity that gives the second the value of the first. `program` and `executor` go
// by these fields alone: they know no segment, exchange or value by its name.
struct Step {
  enum class Type : std::uint8_t { segment, exchange };
  Type type = Type::segment;
  std::string_view kind;  // "project", "dispatch": the name of a segment or exchange, the same in each layer
  std::int32_t layer = -1;
  std::vector<ValueId> reads;   // of an exchange: the counts that it needs, in both directions
  std::vector<ValueId> writes;  // of a segment
  WorkOf work;                  // of a segment; null if it has no products and keeps nothing
  std::vector<std::pair<ValueId, ValueId>> moves;
  Motion forward = Motion::rows;   // of an exchange: how its values travel,
  Motion backward = Motion::rows;  // and how their gradients do
  std::vector<ParameterUse> uses;
  std::string unit;  // name of the unit that holds the uses; empty without uses
  // FQN of the parameter whose dim 0 is shared among owners: an exchange goes between them, a segment sorts by them.
  std::string owned;
  // Of an exchange that is not between owners: the axis over whose ranks it goes.
  std::optional<layout::DenseAxis> axis;
  Recomputed recomputed = Recomputed::never;
  std::vector<ValueId> counts;       // those of its writes that count slots per expert
  bool measures_loss = false;        // the last segment: it forms the loss and its own backward
  std::size_t evaluation_reads = 0;  // so many of its first reads are all that it needs to measure an evaluation
  const ExpertBody* body = nullptr;  // of a segment that runs experts

  [[nodiscard]] std::string name() const;  // "project[3]", "dispatch[3]", "head"
};

struct Block {
  std::vector<Parameter> parameters;
  std::vector<Step> steps;
};

// Adds the parameters and steps of `block` behind those of `model`.
void append(Block& model, Block block);

// "model.layers.3.mlp.gate.weight": the FQN of the parameter `name` of a layer.
[[nodiscard]] std::string layer_fqn(std::int64_t layer, std::string_view name);

// Collects the parameters and steps of one block, of a layer or (layer -1) of none.
class BlockBuilder {
 public:
  explicit BlockBuilder(std::int64_t layer = -1) : layer_(static_cast<std::int32_t>(layer)) {}

  [[nodiscard]] ValueId here(ValueKind kind) const { return {kind, layer_}; }
  [[nodiscard]] ValueId next(ValueKind kind) const { return {kind, layer_ + 1}; }
  // The FQN of a parameter: `name` itself outside the layers.
  [[nodiscard]] std::string fqn(std::string_view name) const;

  void parameter(std::string_view name, std::vector<std::int64_t> shape, Initial initial = Initial::normal);
  void expert_parameter(std::string_view name, std::vector<std::int64_t> shape, Initial initial);
  // Lets HuggingFace's fused form store the parameters `parts` as the tensor `name`.
  void fuse(std::string_view name, const std::vector<std::string_view>& parts);

  Step& segment(std::string_view kind, std::vector<ValueId> reads, std::vector<ValueId> writes, WorkOf work = {});
  Step& exchange(std::string_view kind, std::vector<std::pair<ValueId, ValueId>> moves,
                 std::vector<ValueId> counts = {});
  // Lets `step` use parameters of this block's layer, which `unit` gathers.
  Step& use(Step& step, const std::string& unit, const std::vector<std::string_view>& names, plan::UseKind kind) const;

  [[nodiscard]] Block take() { return std::move(block_); }

 private:
  std::int32_t layer_;
  Block block_;
};

}  // namespace tessera::architecture

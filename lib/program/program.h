// The step as a list of instructions: what a rank does in one step, computed before training.
//
// Every instruction lists the resources that it reads, writes, adds to and frees; order checks, memory plan and
// executor use these lists and nothing else to know what depends on what.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "architecture/architecture.h"
#include "architecture/value.h"
#include "layout/group_id.h"

namespace tessera::program {

enum class Op : std::uint8_t {
  gather,
  wait,
  forward,
  backward,
  recompute,
  forward_backward,
  free,
  exchange,
  reduce,
  sum,
  clip,
  update
};

enum class Direction : std::uint8_t { forward, backward };

// open: valid tokens, tokens of each micro-step, stop signal, data error. counts: slots per expert of a micro-step.
// close: norm parts, losses, first non-finite layer. replicas: a unit's shard gradients over the ranks that hold the
// same shard.
enum class SumKind : std::uint8_t { open, counts, close, replicas };

enum class ResourceKind : std::uint8_t {
  value,            // a named value of a micro-step
  gradient,         // the gradient of one
  graph,            // what a chain's backward needs, of a micro-step
  weights,          // a unit's gathered parameters
  weight_gradient,  // a unit's gradient buffer, master precision
  shard_gradient,   // a unit's part of the shard gradients
  totals,           // the result of *open* or *close*
  clip_factor,
  masters,  // a unit's updated master shards
  losses,   // what the head of a micro-step measured
};

struct Resource {
  ResourceKind kind{};
  std::int32_t micro = -1;        // value, gradient, graph, losses
  std::int32_t index = -1;        // unit, chain, or SumKind
  architecture::ValueId value{};  // value, gradient
  friend auto operator<=>(const Resource&, const Resource&) = default;
};

[[nodiscard]] constexpr Resource value_of(std::int32_t micro, architecture::ValueId id) {
  return {.kind = ResourceKind::value, .micro = micro, .index = -1, .value = id};
}
[[nodiscard]] constexpr Resource gradient_of(std::int32_t micro, architecture::ValueId id) {
  return {.kind = ResourceKind::gradient, .micro = micro, .index = -1, .value = id};
}
// Of a unit, a chain (graph_of), or nothing.
[[nodiscard]] constexpr Resource resource(ResourceKind kind, std::int32_t index, std::int32_t micro = -1) {
  return {.kind = kind, .micro = micro, .index = index, .value = {}};
}
[[nodiscard]] constexpr Resource graph_of(std::int32_t micro, std::int32_t chain) {
  return resource(ResourceKind::graph, chain, micro);
}
[[nodiscard]] constexpr Resource totals(SumKind kind) {
  return resource(ResourceKind::totals, static_cast<std::int32_t>(kind));
}

// Consecutive steps of the architecture that run as one graph: Forward and Backward name a chain.
struct Chain {
  std::string name;                 // "embed", "layers.3", "project[3]..route[3]", "head"
  std::int32_t first = 0;           // index of its first step
  std::int32_t last = 0;            // index of its last step, included
  std::vector<std::int32_t> units;  // units whose weights it uses
  std::vector<architecture::ValueId> reads, writes;
  // Values of this chain that are written once and handed to every recomputation (slots and counts).
  std::vector<architecture::ValueId> kept;
};

struct Instruction {
  Op op{};
  Direction direction = Direction::forward;  // of an exchange
  SumKind sum{};
  std::int32_t micro = -1;   // micro-step, or -1
  std::int32_t target = -1;  // chain, unit, or step (of an exchange)
  std::int32_t ticket = -1;  // pairs gather, exchange, reduce and sum with their wait
  Op waits_for{};            // of a wait: what was started
  std::vector<Resource> reads, writes, adds, frees;
};

// evaluate: cross entropy alone, no autograd. skipped: nothing but *open*, as the executor ends any step in which no
// token is valid.
enum class StepKind : std::uint8_t { train, evaluate, skipped };

struct Program {
  StepKind kind = StepKind::train;
  std::int32_t micro_steps = 0;
  std::vector<std::string> units;      // names, by index
  std::vector<std::string> exchanges;  // names of architecture steps, by index
  // The groups of several ranks over which things travel; none, or alone, where one rank is a group of its own.
  std::vector<std::vector<layout::GroupId>> unit_groups;     // by unit: of its gather and its reduction
  std::vector<std::vector<layout::GroupId>> replica_groups;  // by unit: of ranks that hold the same shards
  std::vector<layout::GroupId> exchange_groups;              // by architecture step
  // By SumKind, of open, counts and close: tokens and losses stand on one rank each, so that these go over all ranks of
  // the step, or of a stage (counts).
  std::array<layout::GroupId, 3> sum_groups;
  std::vector<Chain> chains;
  std::vector<Resource> inputs;   // live before the first instruction (the batch)
  std::vector<Resource> results;  // must be live after the last
  std::vector<Instruction> instructions;
};

// The operation only starts; a Wait ends it.
[[nodiscard]] constexpr bool is_started(Op op) {
  return op == Op::gather || op == Op::exchange || op == Op::reduce || op == Op::sum;
}

[[nodiscard]] std::string_view name(Op op);
[[nodiscard]] std::string name(SumKind kind);
[[nodiscard]] std::string name(const Program& program, const Resource& resource);

// The groups that what `instruction` starts, or waits for, travels over.
[[nodiscard]] std::vector<layout::GroupId> groups_of(const Program& program, const Instruction& instruction);

// One line: "Forward m0 layers.3", "Wait Gather layers.3.experts", "Exchange m0 dispatch[3] over ep". Program text is
// these lines.
[[nodiscard]] std::string describe(const Program& program, const Instruction& instruction);
[[nodiscard]] std::vector<std::string> describe(const Program& program);

}  // namespace tessera::program

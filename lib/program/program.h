// The program of a training step or of an evaluation: the list of instructions that a rank runs, computed before
// training.
//
// Every instruction lists the resources that it reads, writes, adds to and frees. Order checks, memory plan and
// executor learn from these lists alone which instructions depend on each other.
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

// The sums over ranks.
//   open      valid tokens, tokens of each micro-step, stop signal, data error
//   counts    slots of each expert in a micro-step
//   close     parts of norms, losses, first layer that is not finite
//   replicas  a unit's shard gradients, over the ranks that hold the same shard
enum class SumKind : std::uint8_t { open, counts, close, replicas };

enum class ResourceKind : std::uint8_t {
  value,            // a named value of a micro-step
  gradient,         // the gradient of such a value
  graph,            // the autograd graph of a chain in a micro-step, for its backward
  weights,          // a unit's gathered parameters
  weight_gradient,  // a unit's gradient buffer, in master precision
  shard_gradient,   // a unit's part of the shard gradients
  totals,           // the result of *open* or *close*
  clip_factor,
  masters,  // a unit's updated master shards
  losses,   // the losses that the head of a micro-step measured
};

struct Resource {
  ResourceKind kind{};
  std::int32_t micro = -1;        // the micro-step of a value, gradient, graph or losses
  std::int32_t index = -1;        // the unit or chain, or the SumKind of totals
  architecture::ValueId value{};  // of a value or gradient
  friend auto operator<=>(const Resource&, const Resource&) = default;
};

[[nodiscard]] constexpr Resource value_of(std::int32_t micro, architecture::ValueId id) {
  return {.kind = ResourceKind::value, .micro = micro, .index = -1, .value = id};
}
[[nodiscard]] constexpr Resource gradient_of(std::int32_t micro, architecture::ValueId id) {
  return {.kind = ResourceKind::gradient, .micro = micro, .index = -1, .value = id};
}
// Returns the resource of a unit or chain `index`; -1 for kinds that belong to none.
[[nodiscard]] constexpr Resource resource(ResourceKind kind, std::int32_t index, std::int32_t micro = -1) {
  return {.kind = kind, .micro = micro, .index = index, .value = {}};
}
[[nodiscard]] constexpr Resource graph_of(std::int32_t micro, std::int32_t chain) {
  return resource(ResourceKind::graph, chain, micro);
}
[[nodiscard]] constexpr Resource totals(SumKind kind) {
  return resource(ResourceKind::totals, static_cast<std::int32_t>(kind));
}

// Consecutive model steps that run as one graph. Forward and Backward instructions name a chain.
struct Chain {
  std::string name;                 // "embed", "layers.3", "project[3]..route[3]", "head"
  std::int32_t first = 0;           // index of its first model step
  std::int32_t last = 0;            // index of its last model step, included
  std::vector<std::int32_t> units;  // the units whose weights it uses
  std::vector<architecture::ValueId> reads, writes;
  // Values of this chain that its forward writes once and that every recomputation gets (slots and counts).
  std::vector<architecture::ValueId> kept;
};

struct Instruction {
  Op op{};
  Direction direction = Direction::forward;  // of an exchange
  SumKind sum{};                             // of a sum
  std::int32_t micro = -1;                   // the micro-step, or -1
  std::int32_t target = -1;                  // the chain, the unit or, of an exchange, the model step
  std::int32_t ticket = -1;                  // pairs gather, exchange, reduce and sum with their wait
  Op waits_for{};                            // of a wait: the operation that it waits for
  std::vector<Resource> reads, writes, adds, frees;
};

// An `evaluate` program computes the cross entropy alone, without autograd. A `skipped` program has *open* alone: the
// executor ends any step likewise in which no token is valid.
enum class StepKind : std::uint8_t { train, evaluate, skipped };

struct Program {
  StepKind kind = StepKind::train;
  std::int32_t micro_steps = 0;
  std::vector<std::string> units;      // names, by index
  std::vector<std::string> exchanges;  // names of model steps, by index
  // The groups over which operations communicate. Groups of one rank are left out, or alone.
  std::vector<std::vector<layout::GroupId>> unit_groups;     // by unit: groups of its gather and its reduction
  std::vector<std::vector<layout::GroupId>> replica_groups;  // by unit: groups of ranks that hold the same shards
  std::vector<layout::GroupId> exchange_groups;              // by model step
  // By SumKind, of open, counts and close. A token and its losses stand on one rank, so these sums go over all ranks of
  // the step, or of a stage (counts).
  std::array<layout::GroupId, 3> sum_groups;
  std::vector<Chain> chains;
  std::vector<Resource> inputs;   // exist before the first instruction (the batch)
  std::vector<Resource> results;  // must exist after the last instruction
  std::vector<Instruction> instructions;
};

// Returns whether an instruction only starts the operation, which a Wait then ends.
[[nodiscard]] constexpr bool is_started(Op op) {
  return op == Op::gather || op == Op::exchange || op == Op::reduce || op == Op::sum;
}

[[nodiscard]] std::string_view name(Op op);
[[nodiscard]] std::string name(SumKind kind);
[[nodiscard]] std::string name(const Program& program, const Resource& resource);

// Returns the groups of the operation that `instruction` starts or waits for.
[[nodiscard]] std::vector<layout::GroupId> groups_of(const Program& program, const Instruction& instruction);

// Returns one line: "Forward m0 layers.3", "Wait Gather layers.3.experts", "Exchange m0 dispatch[3] over ep". The text
// of a program consists of these lines.
[[nodiscard]] std::string describe(const Program& program, const Instruction& instruction);
[[nodiscard]] std::vector<std::string> describe(const Program& program);

}  // namespace tessera::program

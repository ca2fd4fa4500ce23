#include "program/builder.h"

#include <algorithm>

#include "base/error.h"
#include "plan/unit_storage.h"
#include "program/frees.h"
#include "program/gather_schedule.h"

namespace tessera::program {

using architecture::Architecture;
using architecture::SegmentKind;
using architecture::Step;
using architecture::ValueId;
using architecture::ValueKind;

namespace {

Resource value_of(std::int32_t micro, ValueId id) {
  return {.kind = ResourceKind::value, .micro = micro, .index = -1, .value = id};
}
Resource gradient_of(std::int32_t micro, ValueId id) {
  return {.kind = ResourceKind::gradient, .micro = micro, .index = -1, .value = id};
}
Resource resource(ResourceKind kind, std::int32_t index, std::int32_t micro = -1) {
  return {.kind = kind, .micro = micro, .index = index, .value = {}};
}
Resource totals(SumKind kind) { return resource(ResourceKind::totals, static_cast<std::int32_t>(kind)); }

class Builder {
 public:
  Builder(const Architecture& architecture, const std::vector<plan::Placement>& placements,
          const layout::Layout& layout, const BuilderOptions& options)
      : architecture_(architecture), placements_(placements), layout_(layout), options_(options) {
    auto stages = cut_into_stages(architecture, placements, layout, options.recompute, options.fusion);
    program_.kind = options.kind;
    program_.micro_steps = options.micro_steps;
    program_.chains = std::move(stages.chains);
    order_ = std::move(stages.order);
    for (const auto& unit : architecture.units()) program_.units.push_back(unit.name);
    for (const auto& step : architecture.steps()) program_.exchanges.push_back(step.name());
  }

  Program build() {
    start_and_wait({.op = Op::sum, .sum = SumKind::open}, {totals(SumKind::open)});
    if (options_.kind != StepKind::skipped) {
      for (micro_ = 0; micro_ < options_.micro_steps; ++micro_) emit_micro_step();
      emit_end();
    }
    schedule_gathers(program_, options_);
    program_.results = results();
    append_frees(program_);
    return std::move(program_);
  }

 private:
  [[nodiscard]] bool trains() const { return options_.kind == StepKind::train; }
  [[nodiscard]] bool reduces_each_micro_step() const {
    return options_.mode != config::FsdpMode::zero1 && options_.mode != config::FsdpMode::ddp;
  }

  void emit(Instruction instruction) {
    flush_waits(instruction);
    program_.instructions.push_back(std::move(instruction));
  }

  // A started operation is waited for right before the first instruction that reads what it writes.
  void start(Instruction instruction, std::vector<Resource> writes, std::vector<Resource> adds = {},
             std::vector<Resource> frees = {}) {
    Instruction wait{.op = Op::wait, .waits_for = instruction.op};
    wait.direction = instruction.direction;
    wait.sum = instruction.sum;
    wait.micro = instruction.micro;
    wait.target = instruction.target;
    wait.reads = instruction.reads;
    wait.ticket = instruction.ticket = next_ticket_++;
    wait.writes = std::move(writes);
    wait.adds = std::move(adds);
    wait.frees = std::move(frees);
    emit(std::move(instruction));
    in_flight_.push_back(std::move(wait));
  }
  void start_and_wait(Instruction instruction, std::vector<Resource> writes) {
    start(std::move(instruction), std::move(writes));
    flush_all_waits();
  }
  void flush_waits(const Instruction& next) {
    const auto is_read = [&](const Resource& r) {
      return std::find(next.reads.begin(), next.reads.end(), r) != next.reads.end();
    };
    std::erase_if(in_flight_, [&](Instruction& wait) {
      const bool needed = std::any_of(wait.writes.begin(), wait.writes.end(), is_read) ||
                          std::any_of(wait.adds.begin(), wait.adds.end(), is_read);
      if (needed) program_.instructions.push_back(wait);
      return needed;
    });
  }
  void flush_all_waits() {
    for (auto& wait : in_flight_) program_.instructions.push_back(std::move(wait));
    in_flight_.clear();
  }

  void emit_micro_step() {
    for (const auto& chain : program_.chains)
      for (const auto& v : chain.reads)
        if (is_batch(v.kind)) add_input(value_of(micro_, v));
    for (const auto& stage : order_) emit_forward(stage);
    if (!trains()) return;
    for (auto stage = order_.rbegin(); stage != order_.rend(); ++stage) emit_backward(*stage);
  }

  static bool is_batch(ValueKind kind) { return kind <= ValueKind::sequence_starts; }
  void add_input(const Resource& r) {
    if (std::find(program_.inputs.begin(), program_.inputs.end(), r) == program_.inputs.end())
      program_.inputs.push_back(r);
  }

  [[nodiscard]] const Chain& chain(std::int32_t index) const {
    return program_.chains[static_cast<std::size_t>(index)];
  }
  [[nodiscard]] const Step& step(std::int32_t index) const {
    return architecture_.steps()[static_cast<std::size_t>(index)];
  }
  [[nodiscard]] bool is_head(const Chain& c) const { return step(c.last).segment == SegmentKind::head; }
  [[nodiscard]] bool has_backward(const Chain& c) const {
    return !c.units.empty() || std::any_of(c.reads.begin(), c.reads.end(),
                                           [](ValueId v) { return architecture::is_differentiable(v.kind); });
  }

  void emit_forward(const Stage& stage) {
    if (stage.type == Stage::Type::exchange) return emit_exchange(stage.index, Direction::forward);
    const auto& c = chain(stage.index);
    if (is_head(c)) return emit_head(stage.index);
    Instruction i{.op = Op::forward, .micro = micro_, .target = stage.index};
    for (const auto& v : c.reads) i.reads.push_back(value_of(micro_, v));
    for (const auto u : c.units) i.reads.push_back(resource(ResourceKind::weights, u));
    for (const auto& v : c.writes) i.writes.push_back(value_of(micro_, v));
    if (trains() && has_backward(c) && !is_recomputed(c, architecture_, options_.recompute))
      i.writes.push_back(resource(ResourceKind::graph, stage.index, micro_));
    emit(std::move(i));
    emit_counts_after(c);
  }

  // The slots per expert are summed over the ranks of the micro-step once the last route has run.
  void emit_counts_after(const Chain& c) {
    if (!trains() || architecture_.balance() == config::BalanceLoss::sequence) return;
    std::int32_t last_route = -1;
    Instruction i{.op = Op::sum, .sum = SumKind::counts, .micro = micro_};
    for (std::size_t k = 0; k < architecture_.steps().size(); ++k) {
      const auto& s = architecture_.steps()[k];
      if (s.type != Step::Type::segment || s.segment != SegmentKind::route) continue;
      last_route = static_cast<std::int32_t>(k);
      i.reads.push_back(value_of(micro_, {ValueKind::router_count, s.layer}));
    }
    if (last_route < c.first || last_route > c.last) return;
    start(std::move(i), {value_of(micro_, {ValueKind::balance_count, -1})});
  }

  // An evaluation measures the cross entropy alone: no statistics of the routers.
  void emit_head(std::int32_t index) {
    const auto& c = chain(index);
    Instruction i{.op = trains() ? Op::forward_backward : Op::forward, .micro = micro_, .target = index};
    for (const auto& v : c.reads)
      if (trains() || v.kind == ValueKind::hidden || v.kind == ValueKind::labels)
        i.reads.push_back(value_of(micro_, v));
    i.reads.push_back(totals(SumKind::open));
    for (const auto u : c.units) i.reads.push_back(resource(ResourceKind::weights, u));
    i.writes.push_back(resource(ResourceKind::losses, -1, micro_));
    if (trains()) add_gradients_of_reads(i, c);
    emit(std::move(i));
    if (trains()) emit_reduces_after(c);
  }

  void add_gradients_of_reads(Instruction& i, const Chain& c) {
    for (const auto& v : c.reads)
      if (architecture::is_differentiable(v.kind)) i.adds.push_back(gradient_of(micro_, v));
    for (const auto u : c.units) i.adds.push_back(resource(ResourceKind::weight_gradient, u));
  }

  void emit_backward(const Stage& stage) {
    if (stage.type == Stage::Type::exchange) return emit_exchange(stage.index, Direction::backward);
    const auto& c = chain(stage.index);
    if (is_head(c) || !has_backward(c)) return;
    const auto graph = resource(ResourceKind::graph, stage.index, micro_);
    if (is_recomputed(c, architecture_, options_.recompute)) {
      Instruction i{.op = Op::recompute, .micro = micro_, .target = stage.index};
      for (const auto& v : c.reads) i.reads.push_back(value_of(micro_, v));
      for (const auto& v : c.kept) i.reads.push_back(value_of(micro_, v));
      for (const auto u : c.units) i.reads.push_back(resource(ResourceKind::weights, u));
      i.writes.push_back(graph);
      emit(std::move(i));
    }
    Instruction i{.op = Op::backward, .micro = micro_, .target = stage.index};
    i.reads.push_back(graph);
    for (const auto& v : c.writes)
      if (architecture::is_differentiable(v.kind)) i.reads.push_back(gradient_of(micro_, v));
    for (const auto u : c.units) i.reads.push_back(resource(ResourceKind::weights, u));
    add_gradients_of_reads(i, c);
    emit(std::move(i));
    emit_reduces_after(c);
  }

  // Units whose backward in this micro-step (or in the step) ends with this chain are reduced now.
  void emit_reduces_after(const Chain& c) {
    if (!reduces_each_micro_step() && micro_ + 1 < options_.micro_steps) return;
    for (const auto u : c.units) {
      const auto first_user = std::find_if(program_.chains.begin(), program_.chains.end(), [&](const Chain& other) {
        return std::find(other.units.begin(), other.units.end(), u) != other.units.end();
      });
      if (&*first_user != &c) continue;
      flush_reduces();
      const auto buffer = resource(ResourceKind::weight_gradient, u);
      Instruction i{.op = Op::reduce, .micro = micro_, .target = u};
      i.reads.push_back(buffer);
      start(std::move(i), {}, {resource(ResourceKind::shard_gradient, u)}, {buffer});
    }
  }
  // One reduction is under way while the next unit's gradients form: the pool holds a few buffers, not one per unit.
  void flush_reduces() {
    std::erase_if(in_flight_, [&](Instruction& wait) {
      if (wait.waits_for != Op::reduce) return false;
      program_.instructions.push_back(wait);
      return true;
    });
  }

  void emit_exchange(std::int32_t index, Direction direction) {
    const auto& s = step(index);
    Instruction i{.op = Op::exchange, .direction = direction, .micro = micro_, .target = index};
    std::vector<Resource> writes;
    for (const auto& [from, to] : s.moves) {
      if (direction == Direction::forward) {
        i.reads.push_back(value_of(micro_, from));
        writes.push_back(value_of(micro_, to));
      } else if (architecture::is_differentiable(from.kind)) {
        i.reads.push_back(gradient_of(micro_, to));
        writes.push_back(gradient_of(micro_, from));
      }
    }
    if (i.reads.empty()) return;
    if (direction == Direction::forward) {
      for (const auto& v : s.reads) i.reads.push_back(value_of(micro_, v));
      start(std::move(i), std::move(writes));
    } else {
      start(std::move(i), {}, std::move(writes));
    }
  }

  // Ranks that hold the same shard sum its gradient once a step, after the last use of the last micro-step.
  void emit_replica_sums() {
    for (std::size_t u = 0; u < architecture_.units().size(); ++u) {
      const auto shard = resource(ResourceKind::shard_gradient, static_cast<std::int32_t>(u));
      const auto& uses = architecture_.units()[u].uses;
      const bool replicated = std::any_of(uses.begin(), uses.end(), [&](const plan::Use& use) {
        const auto& group = plan::placement_of(placements_, use.fqn).replicate_group;
        return !group.empty() && layout_.group_size(group) > 1;
      });
      if (!replicated) continue;
      Instruction i{.op = Op::sum, .sum = SumKind::replicas, .target = static_cast<std::int32_t>(u)};
      i.reads.push_back(shard);
      start(std::move(i), {}, {shard});
    }
  }

  void emit_end() {
    flush_all_waits();
    if (trains()) emit_replica_sums();
    flush_all_waits();
    Instruction close{.op = Op::sum, .sum = SumKind::close};
    for (std::int32_t m = 0; m < options_.micro_steps; ++m)
      close.reads.push_back(resource(ResourceKind::losses, -1, m));
    if (trains()) add_all_units(close.reads, ResourceKind::shard_gradient);
    start_and_wait(std::move(close), {totals(SumKind::close)});
    if (!trains()) return;
    const auto factor = resource(ResourceKind::clip_factor, -1);
    Instruction clip{.op = Op::clip};
    clip.reads.push_back(totals(SumKind::close));
    clip.writes.push_back(factor);
    emit(std::move(clip));
    Instruction update{.op = Op::update};
    update.reads.push_back(factor);
    add_all_units(update.reads, ResourceKind::shard_gradient);
    add_all_units(update.writes, ResourceKind::masters);
    emit(std::move(update));
  }

  void add_all_units(std::vector<Resource>& list, ResourceKind kind) const {
    for (std::size_t u = 0; u < program_.units.size(); ++u)
      list.push_back(resource(kind, static_cast<std::int32_t>(u)));
  }

  [[nodiscard]] std::vector<Resource> results() const {
    if (options_.kind == StepKind::skipped) return {totals(SumKind::open)};
    if (options_.kind == StepKind::evaluate) return {totals(SumKind::close)};
    std::vector<Resource> masters;
    add_all_units(masters, ResourceKind::masters);
    return masters;
  }

  const Architecture& architecture_;
  const std::vector<plan::Placement>& placements_;
  const layout::Layout& layout_;
  const BuilderOptions& options_;
  std::vector<Stage> order_;
  Program program_;
  std::vector<Instruction> in_flight_;
  std::int32_t micro_ = 0;
  std::int32_t next_ticket_ = 0;
};

}  // namespace

Program build_program(const Architecture& architecture, const std::vector<plan::Placement>& placements,
                      const layout::Layout& layout, const BuilderOptions& options) {
  base::expect(options.kind == StepKind::skipped || options.micro_steps >= 1, "a step of {} micro-steps",
               options.micro_steps);
  return Builder(architecture, placements, layout, options).build();
}

BuilderOptions builder_options(const config::Settings& settings) {
  const auto& fsdp = settings.train.accelerator.fsdp_config;
  const auto& recompute = settings.train.gradient_checkpointing;
  BuilderOptions options;
  options.mode = fsdp.fsdp_mode;
  options.reshard_after_forward = fsdp.reshard_after_forward;
  options.prefetch_depth = fsdp.forward_prefetch ? static_cast<std::int32_t>(fsdp.prefetch_depth) : 0;
  if (recompute.enable)
    options.recompute = recompute.scope == config::RecomputeScope::full ? Recompute::full : Recompute::experts;
  options.fusion = settings.train.debug.poison_freed ? Fusion::none : Fusion::neighbours;
  return options;
}

}  // namespace tessera::program

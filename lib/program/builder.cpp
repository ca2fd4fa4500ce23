#include "program/builder.h"

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <string_view>
#include <unordered_map>

#include "base/error.h"
#include "plan/unit_storage.h"
#include "program/frees.h"
#include "program/gather_schedule.h"

namespace tessera::program {

using architecture::Architecture;
using architecture::Step;
using architecture::ValueId;

namespace {

// open agrees on stops and errors, close decides for all ranks. The balance of a layer is that of the ranks that run
// it.
std::array<layout::GroupId, 3> sum_groups_of(const layout::Layout& layout) {
  const auto if_several = [&](const layout::GroupId& id) {
    return layout.has_several_ranks(id) ? id : layout::GroupId();
  };
  const auto world = if_several(layout::GroupId::world());
  return {world, layout.sizes().pp == 1 ? world : if_several(layout::GroupId::stage()), world};
}

class Builder {
 public:
  // A null `schedule` stands for the one that the options ask for.
  Builder(const Architecture& architecture, const std::vector<plan::Placement>& placements,
          const layout::Layout& layout, const BuilderOptions& options, const Schedule* schedule)
      : architecture_(architecture), placements_(placements), layout_(layout), options_(options) {
    auto forward = cut_into_chains(architecture, placements_, layout, options.recompute, options.fusion);
    program_.kind = options.kind;
    program_.micro_steps = options.micro_steps;
    program_.chains = std::move(forward.chains);
    program_.exchange_groups = std::move(forward.exchange_groups);
    order_ = std::move(forward.order);
    name_units();
    note_shards();
    note_chains();
    summed_.assign(program_.units.size(), false);
    for (const auto& step : architecture.steps()) program_.exchanges.push_back(step.name());
    program_.sum_groups = sum_groups_of(layout);
    schedule_ = schedule != nullptr ? *schedule : in_turns(options.micro_steps, micro_steps_together(), options.kind);
    expect_legal(schedule_, options.micro_steps, options.kind);
    backward_left_in_step_.assign(program_.units.size(), trains() ? options.micro_steps : 0);
    backward_left_in_turns_.assign(program_.units.size(), 0);
  }

  Program build() {
    start_and_wait({.op = Op::sum, .sum = SumKind::open}, {totals(SumKind::open)});
    if (options_.kind != StepKind::skipped) {
      for (std::int32_t micro = 0; micro < options_.micro_steps; ++micro)
        for (const auto& v : batch_) program_.inputs.push_back(value_of(micro, v));
      for (const auto& turns : schedule_) emit_turns(turns);
      emit_end();
    }
    schedule_gathers(program_, schedule_, options_);
    program_.results = results();
    append_frees(program_);
    return std::move(program_);
  }

 private:
  void name_units() {
    const auto homes = plan::home_units(architecture_.units());
    for (const auto& unit : architecture_.units()) {
      program_.units.push_back(unit.name);
      auto& gathers = program_.unit_groups.emplace_back();
      auto& replicas = program_.replica_groups.emplace_back();
      for (const auto& use : unit.uses) {
        const auto& placement = placements_.of(use.fqn);
        add_group(gathers, plan::gather_group(placement, use.kind));
        // A parameter that several units use has one shard gradient: it is summed with the first of them.
        if (homes.at(use.fqn) + 1 == program_.units.size()) add_group(replicas, placement.replicate_group);
      }
    }
  }
  void note_shards() {
    std::unordered_map<std::string_view, std::vector<std::int32_t>> users;  // by parameter
    const auto& units = architecture_.units();
    for (std::size_t u = 0; u < units.size(); ++u)
      for (const auto& use : units[u].uses) users[use.fqn].push_back(static_cast<std::int32_t>(u));
    for (const auto& unit : units) {
      std::set<std::int32_t> sharing;
      for (const auto& use : unit.uses) sharing.insert(users[use.fqn].begin(), users[use.fqn].end());
      sharing_.emplace_back(sharing.begin(), sharing.end());
      has_bound_gradient_.push_back(std::any_of(unit.uses.begin(), unit.uses.end(), [&](const plan::Use& use) {
        const auto& placement = placements_.of(use.fqn);
        return !layout_.has_several_ranks(plan::gather_group(placement, use.kind));
      }));
    }
  }
  // What is asked of the chains again for every micro-step.
  void note_chains() {
    first_user_.assign(program_.units.size(), -1);
    for (std::size_t k = 0; k < program_.chains.size(); ++k) {
      for (const auto u : program_.chains[k].units)
        if (auto& user = first_user_[static_cast<std::size_t>(u)]; user < 0) user = static_cast<std::int32_t>(k);
      for (const auto& v : program_.chains[k].reads)
        if (architecture::is_batch(v.kind) && std::find(batch_.begin(), batch_.end(), v) == batch_.end())
          batch_.push_back(v);
    }
    if (!architecture_.summed_counts().has_value()) return;
    for (std::size_t k = 0; k < architecture_.steps().size(); ++k) {
      const auto& counts = architecture_.steps()[k].counts;
      if (!counts.empty()) last_count_ = static_cast<std::int32_t>(k);
      counts_.insert(counts_.end(), counts.begin(), counts.end());
    }
  }
  void add_group(std::vector<layout::GroupId>& groups, const layout::GroupId& group) const {
    if (!layout_.has_several_ranks(group)) return;
    if (std::find(groups.begin(), groups.end(), group) == groups.end()) groups.push_back(group);
  }

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
    for (const auto* list : {&wait.writes, &wait.adds, &wait.frees}) awaited_.insert(list->begin(), list->end());
    in_flight_.push_back(std::move(wait));
  }
  void start_and_wait(Instruction instruction, std::vector<Resource> writes) {
    start(std::move(instruction), std::move(writes));
    flush_all_waits();
  }
  void flush_waits(const Instruction& next) {
    const auto is_awaited = [&](const Resource& r) { return awaited_.contains(r); };
    if (std::none_of(next.reads.begin(), next.reads.end(), is_awaited) &&
        std::none_of(next.adds.begin(), next.adds.end(), is_awaited))
      return;
    const auto is_needed = [&](const Resource& r) {
      if (std::find(next.reads.begin(), next.reads.end(), r) != next.reads.end()) return true;
      // Sums into the same memory follow each other: in the order of the list, so that their bits do not depend on
      // luck.
      return r.kind == ResourceKind::shard_gradient &&
             std::find(next.adds.begin(), next.adds.end(), r) != next.adds.end();
    };
    // A gradient buffer that is being reduced takes the next micro-step's gradients only behind that.
    const auto is_added_to = [&](const Resource& r) {
      return std::find(next.adds.begin(), next.adds.end(), r) != next.adds.end();
    };
    end_waits([&](const Instruction& wait) {
      return std::any_of(wait.writes.begin(), wait.writes.end(), is_needed) ||
             std::any_of(wait.adds.begin(), wait.adds.end(), is_needed) ||
             std::any_of(wait.frees.begin(), wait.frees.end(), is_added_to);
    });
  }
  template <class IsNeeded>
  void end_waits(const IsNeeded& is_needed) {
    std::erase_if(in_flight_, [&](Instruction& wait) {
      if (!is_needed(wait)) return false;
      for (const auto* list : {&wait.writes, &wait.adds, &wait.frees})
        for (const auto& r : *list) awaited_.erase(awaited_.find(r));
      program_.instructions.push_back(wait);
      return true;
    });
  }
  void flush_all_waits() {
    end_waits([](const Instruction&) { return true; });
  }

  // How many micro-steps take turns by the options: 2 if they are to and there are rows to exchange, else 1.
  [[nodiscard]] std::int32_t micro_steps_together() const {
    const bool exchanges =
        std::ranges::any_of(program_.exchange_groups, [](const auto& group) { return !group.is_alone(); });
    return options_.overlap_exchange && trains() && exchanges ? 2 : 1;
  }

  void emit_turns(const Turns& turns) {
    const auto passes = [&](Direction direction) {
      std::int32_t count = 0;
      for (const auto& lane : turns.lanes)
        count += static_cast<std::int32_t>(std::ranges::count(lane, direction, &Pass::direction));
      return count;
    };
    // The chain that measures the loss runs its backward within the forward pass.
    for (std::size_t unit = 0; unit < program_.units.size(); ++unit)
      backward_left_in_turns_[unit] =
          passes(measures_loss(chain(first_user_[unit])) ? Direction::forward : Direction::backward);
    std::vector<std::size_t> next(turns.lanes.size(), 0);  // by lane: the number of nodes that it has run
    const auto is_done = [&](std::size_t lane) { return next[lane] == turns.lanes[lane].size() * order_.size(); };
    for (bool goes_on = true; goes_on;) {
      goes_on = false;
      for (std::size_t lane = 0; lane < turns.lanes.size(); ++lane) {
        while (!is_done(lane)) {
          const auto& pass = turns.lanes[lane][next[lane] / order_.size()];
          if (emit_node(pass, next[lane]++ % order_.size()) == Turn::passes && turns.lanes.size() > 1) break;
        }
        goes_on = goes_on || !is_done(lane);
      }
    }
  }

  enum class Turn : std::uint8_t { stays, passes };
  Turn emit_node(const Pass& pass, std::size_t index) {
    micro_ = pass.micro;
    const bool is_forward = pass.direction == Direction::forward;
    const auto& node = is_forward ? order_[index] : order_[order_.size() - 1 - index];
    is_forward ? emit_forward(node) : emit_backward(node);
    if (node.type != Node::Type::exchange) return Turn::stays;
    const auto& moves = step(node.index).moves;
    return std::any_of(moves.begin(), moves.end(), [](const auto& m) { return is_differentiable(m.first.kind); })
               ? Turn::passes
               : Turn::stays;
  }

  [[nodiscard]] const Chain& chain(std::int32_t index) const {
    return program_.chains[static_cast<std::size_t>(index)];
  }
  [[nodiscard]] const Step& step(std::int32_t index) const {
    return architecture_.steps()[static_cast<std::size_t>(index)];
  }
  [[nodiscard]] bool measures_loss(const Chain& c) const { return step(c.last).measures_loss; }
  [[nodiscard]] bool has_backward(const Chain& c) const {
    return !c.units.empty() || std::any_of(c.reads.begin(), c.reads.end(),
                                           [](ValueId v) { return architecture::is_differentiable(v.kind); });
  }

  void emit_forward(const Node& node) {
    if (node.type == Node::Type::exchange) return emit_exchange(node.index, Direction::forward);
    const auto& c = chain(node.index);
    if (measures_loss(c)) return emit_loss(node.index);
    Instruction i{.op = Op::forward, .micro = micro_, .target = node.index};
    for (const auto& v : c.reads) i.reads.push_back(value_of(micro_, v));
    for (const auto u : c.units) i.reads.push_back(resource(ResourceKind::weights, u));
    for (const auto& v : c.writes) i.writes.push_back(value_of(micro_, v));
    if (trains() && has_backward(c) && !is_recomputed(c, architecture_, options_.recompute))
      i.writes.push_back(graph_of(micro_, node.index));
    emit(std::move(i));
    emit_counts_after(c);
  }

  // The counts are summed over the ranks of the micro-step once the last of them is known.
  void emit_counts_after(const Chain& c) {
    if (!trains() || last_count_ < c.first || last_count_ > c.last) return;
    Instruction i{.op = Op::sum, .sum = SumKind::counts, .micro = micro_};
    for (const auto& v : counts_) i.reads.push_back(value_of(micro_, v));
    start(std::move(i), {value_of(micro_, *architecture_.summed_counts())});
  }

  // An evaluation measures the cross entropy alone: no statistics of the routers.
  void emit_loss(std::int32_t index) {
    const auto& c = chain(index);
    Instruction i{.op = trains() ? Op::forward_backward : Op::forward, .micro = micro_, .target = index};
    const auto& s = step(c.last);
    const std::span needed(s.reads.data(), trains() ? s.reads.size() : s.evaluation_reads);
    for (const auto& v : c.reads)
      if (std::ranges::find(needed, v) != needed.end()) i.reads.push_back(value_of(micro_, v));
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
    for (const auto u : c.units) {
      i.adds.push_back(resource(ResourceKind::weight_gradient, u));
      if (has_bound_gradient_[static_cast<std::size_t>(u)]) add_shards(i.adds, u);
    }
  }

  // The shard gradients of a unit, and of those that share a parameter with it.
  void add_shards(std::vector<Resource>& list, std::int32_t unit) const {
    for (const auto other : sharing_[static_cast<std::size_t>(unit)])
      list.push_back(resource(ResourceKind::shard_gradient, other));
  }

  void emit_backward(const Node& node) {
    if (node.type == Node::Type::exchange) return emit_exchange(node.index, Direction::backward);
    const auto& c = chain(node.index);
    if (measures_loss(c) || !has_backward(c)) return;
    const auto graph = graph_of(micro_, node.index);
    if (is_recomputed(c, architecture_, options_.recompute)) {
      Instruction i{.op = Op::recompute, .micro = micro_, .target = node.index};
      for (const auto& v : c.reads) i.reads.push_back(value_of(micro_, v));
      for (const auto& v : c.kept) i.reads.push_back(value_of(micro_, v));
      for (const auto u : c.units) i.reads.push_back(resource(ResourceKind::weights, u));
      i.writes.push_back(graph);
      emit(std::move(i));
    }
    Instruction i{.op = Op::backward, .micro = micro_, .target = node.index};
    i.reads.push_back(graph);
    for (const auto& v : c.writes)
      if (architecture::is_differentiable(v.kind)) i.reads.push_back(gradient_of(micro_, v));
    for (const auto u : c.units) i.reads.push_back(resource(ResourceKind::weights, u));
    add_gradients_of_reads(i, c);
    emit(std::move(i));
    emit_reduces_after(c);
  }

  // Units whose backward in this Turns (or in the step) ends with this chain are reduced now. Reductions are under way
  // while the gradients of the next chains form, of as many as are gathered ahead: the pool holds a few buffers, not
  // one per unit.
  void emit_reduces_after(const Chain& c) {
    std::vector<std::int32_t> ended;
    for (const auto u : c.units) {
      const auto unit = static_cast<std::size_t>(u);
      if (&chain(first_user_[unit]) != &c) continue;
      const bool ends_in_turns = --backward_left_in_turns_[unit] == 0,
                 ends_in_step = --backward_left_in_step_[unit] == 0;
      if (reduces_each_micro_step() ? ends_in_turns : ends_in_step) ended.push_back(u);
    }
    if (ended.empty()) return;
    ++reduced_chains_;
    end_reduces(reduced_chains_ - std::max(1, options_.prefetch_depth), c.units);
    for (const auto u : ended) {
      const auto buffer = resource(ResourceKind::weight_gradient, u);
      Instruction i{.op = Op::reduce, .micro = micro_, .target = u};
      i.reads.push_back(buffer);
      std::vector<Resource> shards;
      add_shards(shards, u);
      start(std::move(i), {}, std::move(shards), {buffer});
      reductions_[in_flight_.back().ticket] = {reduced_chains_,
                                               backward_left_in_step_[static_cast<std::size_t>(u)] == 0};
    }
  }

  // Waits for the reductions under way that started with the `last` chain or before, and for those that add to shards
  // of `units`. What is complete then is summed over its replicas under the rest of the step.
  void end_reduces(std::int32_t last, const std::vector<std::int32_t>& units = {}) {
    std::vector<std::int32_t> reduced;
    std::vector<Resource> shards;
    for (const auto unit : units) add_shards(shards, unit);
    end_waits([&](const Instruction& wait) {
      if (wait.waits_for != Op::reduce) return false;
      const bool shares = std::any_of(wait.adds.begin(), wait.adds.end(), [&](const Resource& r) {
        return std::find(shards.begin(), shards.end(), r) != shards.end();
      });
      const auto& reduction = reductions_.at(wait.ticket);
      if (!shares && reduction.chain > last) return false;
      const bool is_complete = reduction.is_last && wait.adds.size() == 1;
      if (is_complete) reduced.push_back(wait.target);
      return true;
    });
    for (const auto unit : reduced) emit_replica_sum(unit);
  }

  // Counts are read in both directions: they say how much travels.
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
    for (const auto& v : s.reads) i.reads.push_back(value_of(micro_, v));
    if (direction == Direction::forward) {
      start(std::move(i), std::move(writes));
    } else {
      start(std::move(i), {}, std::move(writes));
    }
  }

  // Ranks that hold the same shard sum its gradient once a step, after the last use of the last micro-step.
  void emit_replica_sum(std::int32_t unit) {
    const auto u = static_cast<std::size_t>(unit);
    if (program_.replica_groups[u].empty() || summed_[u]) return;
    summed_[u] = true;
    const auto shard = resource(ResourceKind::shard_gradient, unit);
    Instruction i{.op = Op::sum, .sum = SumKind::replicas, .target = unit};
    i.reads.push_back(shard);
    start(std::move(i), {}, {shard});
  }

  void emit_end() {
    if (trains()) {
      end_reduces(reduced_chains_);
      for (std::size_t u = 0; u < program_.units.size(); ++u) emit_replica_sum(static_cast<std::int32_t>(u));
    }
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
  const plan::PlacementIndex placements_;
  const layout::Layout& layout_;
  const BuilderOptions& options_;
  std::vector<Node> order_;
  Program program_;
  std::vector<Instruction> in_flight_;  // waits for what was started
  std::multiset<Resource> awaited_;     // what they write, add to and free
  struct Reduction {
    std::int32_t chain = 0;  // its number among the reduced chains
    bool is_last = false;    // no micro-step of the step adds to the unit's gradients after it
  };
  std::int32_t reduced_chains_ = 0;               // whose reductions have started
  std::map<std::int32_t, Reduction> reductions_;  // by ticket
  Schedule schedule_;
  // By unit: backward passes through its first user that are still to come.
  std::vector<std::int32_t> backward_left_in_turns_, backward_left_in_step_;
  // By unit: the units that share a parameter with it, itself included; and whether some gradient of it is formed in
  // the shard gradient itself, because no other rank has a part of it.
  std::vector<std::vector<std::int32_t>> sharing_;
  std::vector<bool> has_bound_gradient_;
  std::vector<bool> summed_;              // by unit: over its replicas
  std::vector<std::int32_t> first_user_;  // by unit: the first chain that uses it
  std::vector<ValueId> batch_;            // what the chains read of a batch
  std::vector<ValueId> counts_;           // that are summed over the ranks of a micro-step
  std::int32_t last_count_ = -1;          // the step that writes the last of them
  std::int32_t micro_ = 0;
  std::int32_t next_ticket_ = 0;
};

}  // namespace

Program build_program(const Architecture& architecture, const std::vector<plan::Placement>& placements,
                      const layout::Layout& layout, const BuilderOptions& options, const Schedule& schedule) {
  return Builder(architecture, placements, layout, options, &schedule).build();
}

Program build_program(const Architecture& architecture, const std::vector<plan::Placement>& placements,
                      const layout::Layout& layout, const BuilderOptions& options) {
  base::expect(options.kind == StepKind::skipped || options.micro_steps >= 1, "a step of {} micro-steps",
               options.micro_steps);
  return Builder(architecture, placements, layout, options, nullptr).build();
}

}  // namespace tessera::program

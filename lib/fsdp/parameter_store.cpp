#include "fsdp/parameter_store.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/error.h"
#include "comm/element_type.h"
#include "device/memory.h"
#include "device/tensor_device.h"

namespace tessera::fsdp {

namespace {

plan::ElementSizes element_sizes(const device::Numbers& numbers) {
  return {.compute_bytes = static_cast<std::int64_t>(at::elementSize(numbers.compute)),
          .master_bytes = static_cast<std::int64_t>(at::elementSize(numbers.master)),
          .same_type = numbers.compute == numbers.master};
}

}  // namespace

at::Tensor part_of(const at::Tensor& tensor, const layout::Box& outer, const layout::Box& inner) {
  auto part = tensor;
  for (std::size_t d = 0; d < outer.dims.size(); ++d)
    part = part.narrow(static_cast<std::int64_t>(d), inner.dims[d].begin - outer.dims[d].begin, inner.dims[d].size());
  return part;
}

comm::Strided strided_part(void* data, std::size_t element_bytes, const layout::Box& outer, const layout::Box& inner) {
  const auto& o = outer.dims;
  const auto& i = inner.dims;
  base::expect(!o.empty() && o.size() == i.size(), "a part of {} dims in {} dims", i.size(), o.size());
  // The last cut dim determines the rows; uncut dims before it keep them evenly spaced.
  auto cut = o.size() - 1;
  while (cut > 0 && o[cut] == i[cut]) --cut;
  std::int64_t rest = 1, offset = 0, rows = 1;
  for (auto d = o.size(); d-- > cut + 1;) rest *= o[d].size();
  auto step = rest;
  for (auto d = cut + 1; d-- > 0;) {
    base::expect(d == 0 || d == cut || o[d] == i[d], "dims {} and {} are cut, and not next to each other", d, cut);
    offset += (i[d].begin - o[d].begin) * step;
    step *= o[d].size();
    if (d < cut) rows *= i[d].size();
  }
  const auto run = i[cut].size() * rest;
  auto* const begin = static_cast<std::byte*>(data) + static_cast<std::size_t>(offset) * element_bytes;
  if (cut == 0) return {.data = begin, .rows = 1, .row_elements = run, .stride_elements = run};
  return {.data = begin, .rows = rows, .row_elements = run, .stride_elements = o[cut].size() * rest};
}

ParameterStore::Memory::Memory(const StoreOptions& options)
    : weights("gathered weights", options.weight_buffers, options.poison, options.numbers.place),
      gradients("gradient buffers", options.gradient_buffers, options.poison, options.numbers.place) {}

ParameterStore::ParameterStore(const std::vector<plan::Unit>& units, const std::vector<plan::Placement>& placements,
                               const layout::Layout& layout, const mesh::Mesh& mesh, std::int64_t rank,
                               StoreOptions options)
    : layout_(layout),
      mesh_(mesh),
      rank_(rank),
      options_(std::move(options)),
      memory_(std::make_shared<Memory>(options_)) {
  const auto master =
      at::TensorOptions().dtype(options_.numbers.master).device(device::tensor_device(options_.numbers.place));
  for (const auto& placement : placements) {
    auto box = plan::shard_box(placement, layout, rank);
    const auto shape = box.shape();
    memory_->parameters.push_back({placement, std::move(box), at::empty(shape, master), at::zeros(shape, master),
                                   plan::is_primary_holder(placement, layout, rank)});
  }
  for (std::size_t k = 0; k < memory_->parameters.size(); ++k)
    by_fqn_.emplace(memory_->parameters[k].placement.parameter.fqn, k);
  const plan::PlacementIndex index(placements);
  const auto homes = plan::home_units(units);
  for (const auto& unit : units) {
    UnitState state{
        .unit = unit,
        .storage = plan::unit_storage(unit, index, layout, rank, element_sizes(options_.numbers), options_.binding)};
    for (const auto& use : state.storage.uses)
      state.weights.push_back(std::make_unique<device::Weight>(use.box.shape(), options_.numbers.compute,
                                                               options_.numbers.master, options_.numbers.place));
    for (const auto& use : unit.uses) {
      state.parameters.push_back(by_fqn_.at(use.fqn));
      if (homes.at(use.fqn) == units_.size()) state.home_parameters.push_back(state.parameters.back());
    }
    units_.push_back(std::move(state));
    bind_gradients(units_.back(), nullptr);
  }
}

ShardedParameter& ParameterStore::parameter(const std::string& fqn) {
  const auto found = by_fqn_.find(fqn);
  base::expect(found != by_fqn_.end(), "no parameter {}", fqn);
  return memory_->parameters[found->second];
}

std::vector<comm::Strided> ParameterStore::pieces(const ShardedParameter& parameter, plan::UseKind use,
                                                  const layout::Box& box, const at::Tensor& tensor) const {
  const auto group = plan::gather_group(parameter.placement, use);
  const auto ranks = layout_.group(rank_, group);
  std::vector<comm::Strided> result;
  for (const auto member : ranks)
    result.push_back(strided_part(tensor.data_ptr(), tensor.element_size(), box,
                                  plan::shard_box(parameter.placement, layout_, member)));
  return result;
}

void ParameterStore::bind_values(UnitState& state, std::byte* buffer) {
  auto* unbound = options_.poison == device::Poison::fill_with_nan ? memory_->weights.poison() : nullptr;
  for (std::size_t k = 0; k < state.weights.size(); ++k) {
    const auto& use = state.storage.uses[k];
    if (!use.value_is_bound)
      state.weights[k]->bind_value(buffer != nullptr ? buffer + use.value_offset : unbound);
    else
      state.weights[k]->bind_value(state.is_gathered ? memory_->parameters[state.parameters[k]].master.data_ptr()
                                                     : nullptr);
  }
}

void ParameterStore::bind_gradients(UnitState& state, std::byte* buffer) {
  for (std::size_t k = 0; k < state.weights.size(); ++k) {
    const auto& use = state.storage.uses[k];
    if (use.gradient_is_bound)
      state.weights[k]->bind_gradient(memory_->parameters[state.parameters[k]].gradient.data_ptr());
    else
      state.weights[k]->bind_gradient(buffer != nullptr ? buffer + use.gradient_offset : nullptr);
  }
}

std::vector<Travelling> ParameterStore::start_gather(std::size_t unit) {
  auto& state = units_[unit];
  base::expect(!state.is_gathered, "unit {} is gathered already", state.unit.name);
  state.is_gathered = true;
  state.value_buffer = memory_->weights.take(state.storage.value_bytes);
  bind_values(state, state.value_buffer);
  std::map<layout::GroupId, std::vector<comm::GatherBlock>> blocks;
  for (std::size_t k = 0; k < state.weights.size(); ++k) {
    const auto& use = state.storage.uses[k];
    if (use.value_is_bound) continue;
    const auto& p = memory_->parameters[state.parameters[k]];
    const auto kind = state.unit.uses[k].kind;
    auto& weight = *state.weights[k];
    part_of(weight.value(), use.box, p.box).copy_(p.master);
    blocks[plan::gather_group(p.placement, kind)].push_back(
        {comm::element_type(options_.numbers.compute), pieces(p, kind, use.box, weight.value())});
  }
  std::vector<Travelling> started;
  for (auto& [group, list] : blocks)
    started.push_back({group, mesh_.communicator(group)->gather_blocks(std::move(list), memory_)});
  return started;
}

void ParameterStore::free(std::size_t unit) {
  auto& state = units_[unit];
  base::expect(state.is_gathered, "unit {} is not gathered", state.unit.name);
  state.is_gathered = false;
  bind_values(state, nullptr);
  memory_->weights.give_back(state.value_buffer, state.storage.value_bytes);
  state.value_buffer = nullptr;
}

void ParameterStore::take_gradient(std::size_t unit) {
  auto& state = units_[unit];
  if (state.has_gradient) return;
  state.has_gradient = true;
  state.gradient_buffer = memory_->gradients.take(state.storage.gradient_bytes);
  if (state.gradient_buffer == nullptr) return;
  device::fill(options_.numbers.place, state.gradient_buffer, 0, state.storage.gradient_bytes);
  bind_gradients(state, state.gradient_buffer);
}

std::vector<Travelling> ParameterStore::start_reduce(std::size_t unit) {
  auto& state = units_[unit];
  base::expect(state.has_gradient, "unit {} has no gradient to reduce", state.unit.name);
  const auto type = comm::element_type(options_.numbers.master);
  std::map<layout::GroupId, std::vector<comm::ReduceBlock>> blocks;
  for (std::size_t k = 0; k < state.weights.size(); ++k) {
    const auto& use = state.storage.uses[k];
    if (use.gradient_is_bound) continue;
    auto& p = memory_->parameters[state.parameters[k]];
    const auto kind = state.unit.uses[k].kind;
    const auto group = plan::gather_group(p.placement, kind);
    if (options_.numbers.place != device::Place::cpu && mesh_.communicator(group)->size() == 1) {
      // A group of one rank: nothing to communicate, and solo_communicator() cannot add on a GPU.
      p.gradient.add_(part_of(state.weights[k]->gradient(), use.box, p.box));
      continue;
    }
    auto contributions = pieces(p, kind, use.box, state.weights[k]->gradient());
    // The shard gradient holds the same rows without gaps.
    const auto& own = contributions[static_cast<std::size_t>(layout_.position(rank_, group))];
    const comm::Strided sum{p.gradient.data_ptr(), own.rows, own.row_elements, own.row_elements};
    blocks[group].push_back({type, std::move(contributions), type, sum});
  }
  std::vector<Travelling> started;
  for (auto& [group, list] : blocks)
    started.push_back({group, mesh_.communicator(group)->reduce_blocks(std::move(list), memory_)});
  return started;
}

void ParameterStore::give_back_gradient(std::size_t unit) {
  auto& state = units_[unit];
  state.has_gradient = false;
  bind_gradients(state, nullptr);
  memory_->gradients.give_back(state.gradient_buffer, state.storage.gradient_bytes);
  state.gradient_buffer = nullptr;
}

void ParameterStore::zero_gradients() {
  for (auto& p : memory_->parameters) p.gradient.zero_();
}

}  // namespace tessera::fsdp

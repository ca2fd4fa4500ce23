#include "plan/placement.h"

#include "base/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace tessera::plan {
namespace {

using base::ParameterSpec;
using layout::GroupId;

// Returns the dim of an ordinary parameter that FSDP cuts over `ranks` ranks.
std::int64_t fsdp_dim(const ParameterSpec& parameter, std::int64_t ranks) {
  const std::vector<std::int64_t>& shape = parameter.shape;
  if (shape.size() != 3 || shape[0] >= ranks) return 0;
  std::int64_t best = 0;
  std::int64_t best_elements = 0;
  for (std::size_t dim = 0; dim < shape.size(); ++dim) {
    std::vector<std::int64_t> largest = shape;
    largest[dim] = layout::block_of(shape[dim], ranks, 0).size();
    const std::int64_t elements = base::elements({parameter.fqn, largest});
    if (dim > 0 && elements >= best_elements) continue;
    best = static_cast<std::int64_t>(dim);
    best_elements = elements;
  }
  return best;
}

Placement ordinary_placement(const ParameterSpec& parameter, const layout::Layout& layout, MasterSharding masters) {
  const auto replicas = GroupId::of(layout::DenseAxis::dp_replicate), fsdp = GroupId::fsdp();
  Placement placement{parameter, {}, "", "dense", replicas.join(fsdp)};
  if (masters == MasterSharding::sharded) {
    placement.cuts = {{fsdp, fsdp_dim(parameter, layout.group_size(fsdp))}};
    placement.replicate_group = replicas;
  }
  return placement;
}

Placement extra_placement(const ParameterSpec& parameter, const std::string& x, MasterSharding masters) {
  const auto replicas = GroupId::of(x, layout::ExtraAxis::replicate), fsdp = GroupId::of(x, layout::ExtraAxis::fsdp);
  Placement placement{parameter, {{GroupId::of(x, layout::ExtraAxis::owners), 0}}, x, x, replicas.join(fsdp)};
  if (masters == MasterSharding::sharded) {
    placement.cuts.push_back({fsdp, 1});
    placement.replicate_group = replicas;
  }
  return placement;
}

// Reports parameters that a plan names but that have no dim for FSDP, once for all layers.
void check_has_dim_1(const std::vector<ParameterSpec>& parameters, const std::map<std::string, std::string>& assigned,
                     base::Problems& problems) {
  std::vector<std::string> reported;
  for (const ParameterSpec& parameter : parameters) {
    const auto found = assigned.find(parameter.fqn);
    if (found == assigned.end() || parameter.shape.size() >= 2) continue;
    const std::string kind = pattern_of(parameter.fqn);
    if (std::find(reported.begin(), reported.end(), kind) != reported.end()) continue;
    reported.push_back(kind);
    problems.add(
        "{} of shape [{}] cannot be split by {}: dim 0 is the extra parallel's and it has no dim 1 for FSDP; leave it "
        "out of the plan",
        kind, fmt::join(parameter.shape, ", "), found->second);
  }
}

bool is_cut_by_extra(const Placement& placement, const Cut& cut) {
  return !placement.extra.empty() && cut.group == placement.owners();
}

// Cuts within the block that earlier cuts left, so that several cuts of one dim would be right too.
void apply(const Cut& cut, const layout::Layout& layout, std::int64_t rank, layout::Box& box) {
  layout::Block& dim = box.dims.at(static_cast<std::size_t>(cut.dim));
  const layout::Block part =
      layout::block_of(dim.size(), layout.group_size(cut.group), layout.position(rank, cut.group));
  dim = {dim.begin + part.begin, dim.begin + part.end};
}

// Describes how the members of a stack are cut: "gate_proj by ep, up_proj by none".
std::string stack_text(const std::vector<const Placement*>& stack) {
  std::vector<std::string> parts;
  for (const Placement* placement : stack)
    parts.push_back(fmt::format("{} by {}", pattern_of(placement->parameter.fqn),
                                placement->extra.empty() ? "none" : placement->extra));
  return fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace

std::vector<Placement> place(const std::vector<ParameterSpec>& parameters, const ParallelPlan& plan,
                             const layout::Layout& layout, MasterSharding masters, base::Problems& problems) {
  base::expect(layout.sizes().pp == 1 && layout.sizes().tp == 1, "placements over stages or tensor-parallel lanes");
  std::vector<std::string> names;
  for (const layout::ExtraParallel& extra : layout.sizes().extra) names.push_back(extra.name);
  const std::map<std::string, std::string> assigned = assign(plan, parameters, names, problems);
  check_has_dim_1(parameters, assigned, problems);
  std::vector<Placement> placements;
  placements.reserve(parameters.size());
  for (const ParameterSpec& parameter : parameters) {
    base::expect(!parameter.shape.empty(), "{} has no dims", parameter.fqn);
    const auto found = assigned.find(parameter.fqn);
    const bool cut = found != assigned.end() && parameter.shape.size() >= 2 &&
                     layout.group_size(GroupId::of(found->second, layout::ExtraAxis::owners)) > 1;
    placements.push_back(cut ? extra_placement(parameter, found->second, masters)
                             : ordinary_placement(parameter, layout, masters));
  }
  return placements;
}

void check_owned_stacks(const std::vector<Placement>& placements, const std::vector<std::vector<std::string>>& stacks,
                        base::Problems& problems) {
  std::map<std::string, const Placement*> by_fqn;
  for (const Placement& placement : placements) by_fqn[placement.parameter.fqn] = &placement;
  std::map<std::string, int> faults;
  for (const std::vector<std::string>& fqns : stacks) {
    std::vector<const Placement*> stack;
    for (const std::string& fqn : fqns) {
      base::expect(by_fqn.contains(fqn), "{} has no placement", fqn);
      stack.push_back(by_fqn.at(fqn));
    }
    const bool alike = std::all_of(stack.begin(), stack.end(),
                                   [&](const Placement* member) { return member->extra == stack.front()->extra; });
    if (!alike) ++faults[stack_text(stack)];
  }
  for (const auto& [text, count] : faults)
    problems.add(
        "parameters that are used together on their owner are split by different extra parallels (in {} layer{}): {}; "
        "give all of them to the same one in the plan",
        count, count == 1 ? "" : "s", text);
}

layout::Box shard_box(const Placement& placement, const layout::Layout& layout, std::int64_t rank) {
  layout::Box box = layout::whole_box(placement.parameter.shape);
  for (const Cut& cut : placement.cuts) apply(cut, layout, rank, box);
  return box;
}

layout::Box use_box(const Placement& placement, UseKind use, const layout::Layout& layout, std::int64_t rank) {
  layout::Box box = layout::whole_box(placement.parameter.shape);
  if (use == UseKind::whole) return box;
  for (const Cut& cut : placement.cuts)
    if (is_cut_by_extra(placement, cut)) apply(cut, layout, rank, box);
  return box;
}

layout::GroupId gather_group(const Placement& placement, UseKind use) {
  GroupId group;
  for (const Cut& cut : placement.cuts) {
    if (use == UseKind::owned && is_cut_by_extra(placement, cut)) continue;
    group = group.join(cut.group);
  }
  return group;
}

bool is_primary_holder(const Placement& placement, const layout::Layout& layout, std::int64_t rank) {
  return layout.position(rank, placement.replicate_group) == 0;
}

std::string describe_placements(const std::vector<Placement>& placements, const layout::Layout& layout,
                                std::int64_t rank) {
  base::Table table({{"parameter"}, {"shape"}, {"cut by"}, {"dim 0"}, {"dim 1"}, {"dim 2"}});
  for (const Placement& placement : placements) {
    std::vector<std::string> groups;
    for (const Cut& cut : placement.cuts) groups.push_back(cut.group.name());
    std::vector<std::string> row{placement.parameter.fqn,
                                 fmt::format("[{}]", fmt::join(placement.parameter.shape, ", ")),
                                 groups.empty() ? "-" : fmt::format("{}", fmt::join(groups, ", "))};
    const layout::Box box = shard_box(placement, layout, rank);
    for (std::size_t dim = 0; dim < 3; ++dim)
      row.push_back(dim < box.dims.size() ? fmt::format("[{}, {})", box.dims[dim].begin, box.dims[dim].end) : "");
    table.add_row(std::move(row));
  }
  return table.str();
}

std::vector<std::string> describe_whole_uses(const std::vector<Placement>& placements, const std::vector<Unit>& units) {
  std::set<std::string> owned;
  for (const Unit& unit : units)
    for (const Use& use : unit.uses)
      if (use.kind == UseKind::owned) owned.insert(use.fqn);
  std::map<std::string, bool> is_whole;  // by extra parallel
  for (const Placement& placement : placements) {
    if (placement.extra.empty()) continue;
    bool& whole = is_whole.try_emplace(placement.extra, true).first->second;
    whole = whole && !owned.contains(placement.parameter.fqn);
  }
  std::vector<std::string> lines;
  for (const auto& [name, whole] : is_whole)
    if (whole)
      lines.push_back(fmt::format(
          "{} splits parameters that are gathered whole for every use: it saves memory, not traffic", name));
  return lines;
}

std::string describe_unused_entries(const ParallelPlan& plan, const layout::Layout& layout) {
  std::vector<std::string> unused;
  for (const auto& [name, entries] : plan.patterns) {
    if (!layout.has_extra(name))
      unused.push_back(name + " (not named)");
    else if (layout.group_size(GroupId::of(name, layout::ExtraAxis::owners)) == 1)
      unused.push_back(name + " (size 1)");
  }
  if (unused.empty()) return {};
  return fmt::format("{} has entries that this run does not use: {}; FSDP shards their parameters like all others",
                     plan.source, fmt::join(unused, ", "));
}

}  // namespace tessera::plan

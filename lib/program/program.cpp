#include "program/program.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"

namespace tessera::program {

std::string_view name(Op op) {
  switch (op) {
    case Op::gather: return "Gather";
    case Op::wait: return "Wait";
    case Op::forward: return "Forward";
    case Op::backward: return "Backward";
    case Op::recompute: return "Recompute";
    case Op::forward_backward: return "ForwardBackward";
    case Op::free: return "Free";
    case Op::exchange: return "Exchange";
    case Op::reduce: return "Reduce";
    case Op::sum: return "Sum";
    case Op::clip: return "Clip";
    case Op::update: return "Update";
  }
  base::expect(false, "no such operation: {}", static_cast<int>(op));
  return {};
}

std::string name(SumKind kind) {
  switch (kind) {
    case SumKind::open: return "open";
    case SumKind::counts: return "counts";
    case SumKind::close: return "close";
    case SumKind::replicas: return "replicas";
  }
  base::expect(false, "no such sum: {}", static_cast<int>(kind));
  return {};
}

std::string name(const Program& program, const Resource& r) {
  const auto unit = [&] { return program.units.at(static_cast<std::size_t>(r.index)); };
  switch (r.kind) {
    case ResourceKind::value: return fmt::format("m{} {}", r.micro, architecture::name(r.value));
    case ResourceKind::gradient: return fmt::format("m{} gradient of {}", r.micro, architecture::name(r.value));
    case ResourceKind::graph:
      return fmt::format("m{} graph of {}", r.micro, program.chains.at(static_cast<std::size_t>(r.index)).name);
    case ResourceKind::weights: return "weights of " + unit();
    case ResourceKind::weight_gradient: return "gradient buffer of " + unit();
    case ResourceKind::shard_gradient: return "shard gradients of " + unit();
    case ResourceKind::totals: return "totals of " + name(static_cast<SumKind>(r.index));
    case ResourceKind::clip_factor: return "clip factor";
    case ResourceKind::masters: return "updated masters of " + unit();
    case ResourceKind::losses: return fmt::format("m{} losses", r.micro);
  }
  base::expect(false, "no such resource: {}", static_cast<int>(r.kind));
  return {};
}

namespace {

std::string object_of(const Program& p, Op op, const Instruction& i) {
  const auto target = static_cast<std::size_t>(i.target);
  switch (op) {
    case Op::gather:
    case Op::free:
    case Op::reduce: return p.units.at(target);
    case Op::forward:
    case Op::backward:
    case Op::recompute:
    case Op::forward_backward: return p.chains.at(target).name;
    case Op::exchange: return p.exchanges.at(target) + (i.direction == Direction::backward ? " backward" : "");
    case Op::sum: return name(i.sum) + (i.sum == SumKind::replicas ? " " + p.units.at(target) : "");
    case Op::wait:
    case Op::clip:
    case Op::update: break;
  }
  return {};
}

}  // namespace

std::vector<layout::GroupId> groups_of(const Program& p, const Instruction& i) {
  const auto target = static_cast<std::size_t>(i.target);
  const auto one = [](const layout::GroupId& group) {
    return group.is_alone() ? std::vector<layout::GroupId>() : std::vector{group};
  };
  switch (i.op == Op::wait ? i.waits_for : i.op) {
    case Op::gather:
    case Op::reduce: return p.unit_groups.at(target);
    case Op::exchange: return one(p.exchange_groups.at(target));
    case Op::sum:
      return i.sum == SumKind::replicas ? p.replica_groups.at(target)
                                        : one(p.sum_groups.at(static_cast<std::size_t>(i.sum)));
    default: return {};
  }
}

std::string describe(const Program& program, const Instruction& i) {
  const Op op = i.op == Op::wait ? i.waits_for : i.op;
  std::string line = i.op == Op::wait ? "Wait " : "";
  line += name(op);
  if (i.micro >= 0) line += fmt::format(" m{}", i.micro);
  if (const auto object = object_of(program, op, i); !object.empty()) line += " " + object;
  if (i.op == Op::wait) return line;
  std::vector<std::string> groups;
  for (const auto& group : groups_of(program, i)) groups.push_back(group.name());
  if (!groups.empty()) line += fmt::format(" over {}", fmt::join(groups, ", "));
  return line;
}

std::vector<std::string> describe(const Program& program) {
  std::vector<std::string> lines;
  lines.reserve(program.instructions.size());
  for (const auto& instruction : program.instructions) lines.push_back(describe(program, instruction));
  return lines;
}

}  // namespace tessera::program

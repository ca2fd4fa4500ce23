#include "support/cuda_double/nccl_meeting.h"

#include <fmt/format.h>

#include <iterator>

namespace tessera::test::cuda_double {

namespace {

constexpr std::size_t remembered_launches = 4096;

std::string describe(const Heading& heading) {
  return fmt::format("{} of {} {}", call_name(heading.kind), heading.count,
                     name_of_type(static_cast<ncclDataType_t>(heading.type)));
}

}  // namespace

Heading heading_of(const NcclOperation& o, std::uint64_t launch) {
  return {.kind = o.kind,
          .type = o.type,
          .reduction = reduces(o.kind) ? static_cast<std::int32_t>(o.reduction) : 0,
          .root = o.kind == Kind::broadcast ? o.peer : 0,
          .count = o.count,
          .number = o.number,
          .launch = launch};
}

std::string disagreement(const NcclOperation& own, const Heading& other, int other_rank) {
  const auto mine = heading_of(own, 0);
  const char* what = nullptr;
  if (is_collective(own.kind) && mine.kind != other.kind) {
    what = "wrong order of collectives";
  } else if (mine.type != other.type) {
    what = "type mismatch";
  } else if (mine.count != other.count) {
    what = "count mismatch";
  } else if (mine.reduction != other.reduction) {
    what = "reduction mismatch";
  } else if (mine.root != other.root) {
    what = "root mismatch";
  }
  if (what == nullptr) return "";
  auto text = fmt::format("{}: rank {} of {} is at its operation {}, {}; rank {} at its operation {}, {}", what,
                          own.communicator->rank, own.communicator->name, own.number, describe(mine), other_rank,
                          other.number, describe(other));
  if (mine.root != other.root) text += fmt::format("; roots {} and {}", mine.root, other.root);
  if (mine.reduction != other.reduction) text += fmt::format("; reductions {} and {}", mine.reduction, other.reduction);
  return text;
}

std::string LaunchOrder::meet(int process, std::uint64_t own, std::uint64_t other) {
  const std::lock_guard lock(mutex_);
  auto& met = met_[process];
  const auto after = met.upper_bound(own);
  const bool earlier = after != met.begin() && std::prev(after)->second > other;
  const bool later = after != met.end() && after->second < other;
  const auto crossed = earlier ? std::prev(after) : after;
  std::string text;
  if (earlier || later)
    text = fmt::format(
        "this process's group call {} met number {} of process {}, and its number {} met number {}: both must launch "
        "on "
        "the communicators that they share in the same order",
        own, other, process, crossed->first, crossed->second);
  met[own] = other;
  if (met.size() > remembered_launches) met.erase(met.begin());
  return text;
}

LaunchOrder& launch_order() {
  static LaunchOrder order;
  return order;
}

}  // namespace tessera::test::cuda_double

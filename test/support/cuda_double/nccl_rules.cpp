#include "support/cuda_double/nccl_rules.h"

#include <fmt/format.h>

#include "support/cuda_double/faults.h"

namespace tessera::test::cuda_double {

namespace {

std::string wrong_kind(const NcclOperation& o) {
  if (o.type < 0 || o.type >= ncclNumTypes) return fmt::format("data type {} is none", static_cast<int>(o.type));
  if (reduces(o.kind)) {
    if (o.reduction < 0 || o.reduction >= ncclNumOps)
      return fmt::format("reduction {} is none", static_cast<int>(o.reduction));
    if (o.reduction == ncclAvg || o.type == ncclFloat16 || o.type == ncclFloat8e4m3 || o.type == ncclFloat8e5m2)
      return fmt::format("the double does not reduce {} by reduction {}", name_of_type(o.type),
                         static_cast<int>(o.reduction));
  }
  const auto size = o.communicator->size;
  if ((o.kind == Kind::broadcast || !is_collective(o.kind)) && (o.peer < 0 || o.peer >= size))
    return fmt::format("{} {} is not in [0, {})", o.kind == Kind::broadcast ? "root" : "peer", o.peer, size);
  return "";
}

// Says why it cannot be the buffer of an operation; "" if it can, or if it is empty.
std::string wrong_buffer(const ByteRange& range, std::string_view name, int device) {
  if (range.empty()) return "";
  if (range.begin == nullptr) return fmt::format("{} is null", name);
  const auto why = runtime().memory.why_not(range);
  if (!why.empty()) return fmt::format("{}: {}", name, why);
  const auto* allocation = runtime().memory.at(range.begin);
  if (allocation->kind == AllocationKind::device && allocation->device != device)
    return fmt::format("{} is memory of GPU {}, the communicator is of GPU {}", name, allocation->device, device);
  return "";
}

// The one distance between the buffers that NCCL counts as in place.
struct InPlace {
  std::string_view rule;
  std::ptrdiff_t bytes = 0;  // from the larger buffer to the smaller one
};

InPlace in_place(const NcclOperation& o) {
  const auto block = static_cast<std::ptrdiff_t>(o.count * bytes_of_type(o.type));
  if (o.kind == Kind::all_gather) return {"sendbuff == recvbuff + rank * sendcount", o.communicator->rank * block};
  if (o.kind == Kind::reduce_scatter) return {"recvbuff == sendbuff + rank * recvcount", o.communicator->rank * block};
  return {"sendbuff == recvbuff", 0};
}

std::string wrong_place(const NcclOperation& o) {
  const auto from = sent(o), to = received(o);
  if (!overlap(from, to)) return "";
  const auto rule = in_place(o);
  const auto distance = o.kind == Kind::all_gather ? from.begin - to.begin : to.begin - from.begin;
  if (distance == rule.bytes) return "";
  return fmt::format(
      "wrong in-place offset: the buffers overlap, so that {} must hold; they are {} bytes apart, not {}", rule.rule,
      distance, rule.bytes);
}

std::string wrong_arguments(const NcclOperation& o) {
  auto why = wrong_kind(o);
  const auto device = o.communicator->device;
  if (why.empty() && o.stream->device != device)
    why = fmt::format("{} is of GPU {}, the communicator of GPU {}", o.stream->name, o.stream->device, device);
  if (why.empty()) why = wrong_buffer(sent(o), "sendbuff", device);
  if (why.empty()) why = wrong_buffer(received(o), "recvbuff", device);
  if (why.empty()) why = wrong_place(o);
  return why;
}

}  // namespace

ncclResult_t check_arguments(const NcclOperation& operation) {
  const auto why = wrong_arguments(operation);
  if (why.empty()) return ncclSuccess;
  const bool has_type = operation.type >= 0 && operation.type < ncclNumTypes;
  report_fault(fmt::format("{}: {}", has_type ? describe(operation) : std::string(call_name(operation.kind)), why));
  return ncclInvalidArgument;
}

void check_apart(const std::vector<NcclOperation>& group) {
  for (std::size_t b = 1; b < group.size(); ++b)
    for (std::size_t a = 0; a < b; ++a) {
      const auto &first = group[a], &second = group[b];
      if (overlap(received(first), received(second)) || overlap(sent(first), received(second)) ||
          overlap(received(first), sent(second)))
        report_fault(
            fmt::format("{} and {} are of one group, which runs them at the same time, and one writes what the "
                        "other touches",
                        describe(first), describe(second)));
    }
}

}  // namespace tessera::test::cuda_double

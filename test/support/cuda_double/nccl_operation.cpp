#include "support/cuda_double/nccl_operation.h"

#include <fmt/format.h>

#include <array>

namespace tessera::test::cuda_double {

namespace {

struct Type {
  std::string_view name;
  std::size_t bytes;
};
// By ncclDataType_t.
constexpr std::array<Type, ncclNumTypes> types{{{"int8", 1},
                                                {"uint8", 1},
                                                {"int32", 4},
                                                {"uint32", 4},
                                                {"int64", 8},
                                                {"uint64", 8},
                                                {"float16", 2},
                                                {"float32", 4},
                                                {"float64", 8},
                                                {"bfloat16", 2},
                                                {"float8e4m3", 1},
                                                {"float8e5m2", 1}}};
static_assert(ncclFloat32 == 7 && ncclBfloat16 == 9 && ncclInt64 == 4);

}  // namespace

bool is_collective(Kind kind) { return kind != Kind::send && kind != Kind::receive; }
bool reduces(Kind kind) { return kind == Kind::reduce_scatter || kind == Kind::all_reduce; }

std::string_view call_name(Kind kind) {
  switch (kind) {
    case Kind::all_gather: return "ncclAllGather";
    case Kind::reduce_scatter: return "ncclReduceScatter";
    case Kind::all_reduce: return "ncclAllReduce";
    case Kind::broadcast: return "ncclBroadcast";
    case Kind::send: return "ncclSend";
    case Kind::receive: return "ncclRecv";
  }
  return "";
}

std::size_t bytes_of_type(ncclDataType_t type) { return types[static_cast<std::size_t>(type)].bytes; }
std::string_view name_of_type(ncclDataType_t type) { return types[static_cast<std::size_t>(type)].name; }

ByteRange sent(const NcclOperation& o) {
  if (o.kind == Kind::receive || (o.kind == Kind::broadcast && o.communicator->rank != o.peer)) return {};
  const auto blocks = o.kind == Kind::reduce_scatter ? static_cast<std::size_t>(o.communicator->size) : 1;
  return bytes_of(o.send, blocks * o.count * bytes_of_type(o.type));
}

ByteRange received(const NcclOperation& o) {
  if (o.kind == Kind::send) return {};
  const auto blocks = o.kind == Kind::all_gather ? static_cast<std::size_t>(o.communicator->size) : 1;
  return bytes_of(o.receive, blocks * o.count * bytes_of_type(o.type));
}

std::string describe(const NcclOperation& o) {
  auto text = fmt::format("{} of {} {}", call_name(o.kind), o.count, name_of_type(o.type));
  if (o.kind == Kind::send) text += fmt::format(" to rank {}", o.peer);
  if (o.kind == Kind::receive) text += fmt::format(" from rank {}", o.peer);
  if (o.kind == Kind::broadcast) text += fmt::format(" from root {}", o.peer);
  return text + " of " + o.communicator->name;
}

}  // namespace tessera::test::cuda_double

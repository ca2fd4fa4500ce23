// Where the ranks of a new communicator find each other: the process that made its unique id.
#pragma once

#include <nccl.h>

#include <cstdint>
#include <optional>

#include "support/cuda_double/nccl_mail.h"

namespace tessera::test::cuda_double {

// In an Address: who made the id, who gathers the ranks.
constexpr std::int32_t founder = -1;

struct Founded {
  std::uint64_t key = 0;  // of the communicator
  std::int32_t process = 0;
};
// Nothing if it is not from ncclGetUniqueId.
[[nodiscard]] std::optional<Founded> read_id(const ncclUniqueId& id);

// What a rank says to the founder. The answer begins with a bool: true, and all ranks' words; or false, and what is
// wrong in text.
struct Joining {
  std::uint64_t key;
  std::int32_t size, rank, process, device;
};

// A rank has come to a communicator whose id was made here. On any thread.
void found_communicator(const Bytes& joining);

}  // namespace tessera::test::cuda_double

// Lets the ranks of a new communicator find each other through the process that made its unique id.
#pragma once

#include <nccl.h>

#include <cstdint>
#include <optional>

#include "support/cuda_double/nccl_mail.h"

namespace tessera::test::cuda_double {

// The "rank", in an Address, of the process that made the id and gathers the ranks.
constexpr std::int32_t founder = -1;

struct Founded {
  std::uint64_t key = 0;  // names the communicator
  std::int32_t process = 0;
};
// Reads an id; returns nothing if it is not from ncclGetUniqueId.
[[nodiscard]] std::optional<Founded> read_id(const ncclUniqueId& id);

// What a rank says to the founder. The answer begins with a bool: true, and all ranks' words; or false, and what is
// wrong in text.
struct Joining {
  std::uint64_t key;
  std::int32_t size, rank, process, device;
};

// Takes the message of a rank that joins a communicator whose id this process made. For any thread.
void found_communicator(const Bytes& joining);

}  // namespace tessera::test::cuda_double

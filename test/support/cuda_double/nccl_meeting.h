// What a rank says of its operation when it meets another, and whether the two agree.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "support/cuda_double/nccl_mail.h"
#include "support/cuda_double/nccl_operation.h"

namespace tessera::test::cuda_double {

struct Heading {
  Kind kind{};
  std::int32_t type = 0, reduction = 0, root = 0;  // as NcclOperation; root: only of a broadcast
  std::uint64_t count = 0;
  std::uint64_t number = 0;
  std::uint64_t launch = 0;  // of all group calls of the process, from 1
};

[[nodiscard]] Heading heading_of(const NcclOperation& operation, std::uint64_t launch);

// "" if they agree. Begins "wrong order of collectives", "count mismatch", "type mismatch", ...
[[nodiscard]] std::string disagreement(const NcclOperation& own, const Heading& other, int other_rank);

// The order in which two processes launched what they met for.
class LaunchOrder {
 public:
  // This process's launch `own` met launch `other` of `process`. A sentence if another pair of theirs met the other way
  // round; "" if not. Any thread.
  [[nodiscard]] std::string meet(int process, std::uint64_t own, std::uint64_t other);

 private:
  std::mutex mutex_;
  std::map<int, std::map<std::uint64_t, std::uint64_t>> met_;  // by process: own -> other
};

[[nodiscard]] LaunchOrder& launch_order();

}  // namespace tessera::test::cuda_double

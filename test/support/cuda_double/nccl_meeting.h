// The description of its operation that a rank sends when it meets another, and the check that two agree.
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
  std::int32_t type = 0, reduction = 0, root = 0;  // as in NcclOperation; root for a broadcast only
  std::uint64_t count = 0;
  std::uint64_t number = 0;
  std::uint64_t launch = 0;  // counts all group calls of the process from 1
};

[[nodiscard]] Heading heading_of(const NcclOperation& operation, std::uint64_t launch);

// Returns "" if they agree, else a text that begins "wrong order of collectives", "count mismatch", "type mismatch",
// ...
[[nodiscard]] std::string disagreement(const NcclOperation& own, const Heading& other, int other_rank);

// Compares the orders in which two processes launched the operations for which they met.
class LaunchOrder {
 public:
  // Records that this process's launch `own` met launch `other` of `process`. Returns a sentence if another pair of
  // theirs met in the opposite order, else "". For any thread.
  [[nodiscard]] std::string meet(int process, std::uint64_t own, std::uint64_t other);

 private:
  std::mutex mutex_;
  std::map<int, std::map<std::uint64_t, std::uint64_t>> met_;  // by process: own -> other
};

[[nodiscard]] LaunchOrder& launch_order();

}  // namespace tessera::test::cuda_double

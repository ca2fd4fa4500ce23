// Small exchanges between the ranks of a group, and agreement on failures: an error of one rank before a collective
// becomes the error of every rank, so that no rank waits for one that has failed.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "comm/communicator.h"

namespace tessera::comm {

struct Failure {
  base::ExitCode code = base::ExitCode::rank_failed;
  std::string message;
};

// Reports the failure of one rank; every rank of the group throws it at the same point.
class AgreedError : public base::Error {
 public:
  using base::Error::Error;
};

// Collective over `group`: returns the number that each rank passed as `own`, in rank order.
[[nodiscard]] std::vector<std::int64_t> numbers_of_ranks(Communicator& group, std::int64_t own);

// Collective over `group`: returns rank `root`'s `own` on every rank; ignores `own` on the other ranks.
[[nodiscard]] std::string text_of_rank(Communicator& group, std::int64_t root, const std::string& own);

// Returns the code and message of a base::Error. Of any other exception, returns rank_failed and its what() (without
// the stack trace that LibTorch adds), or advice where the process ran out of memory or threads.
[[nodiscard]] Failure describe_failure(const std::exception_ptr& error);

// Collective over `group`. Returns if no rank passed a failure. Otherwise every rank throws an AgreedError with the
// code and message of the lowest rank that passed one; a group of several ranks puts "rank 2: " before the message.
void agree(Communicator& group, const std::optional<Failure>& failure);

// Collective over `group`: calls `action`, then agrees on the exception that it threw, if any. Precondition: `action`
// does not communicate.
void agree_on(Communicator& group, const std::function<void()>& action);

}  // namespace tessera::comm

// What ranks learn of each other in passing, and deciding together that something failed: a rank's error in front of a
// collective becomes the error of every rank, instead of leaving the others to wait for it.
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

// The failure of one rank, thrown by every rank of a group at the same point.
class AgreedError : public base::Error {
 public:
  using base::Error::Error;
};

// Collective over `group`: every rank's number, in rank order.
[[nodiscard]] std::vector<std::int64_t> numbers_of_ranks(Communicator& group, std::int64_t own);

// Collective over `group`: the text of rank `root`, on every rank. The others' own is not looked at.
[[nodiscard]] std::string text_of_rank(Communicator& group, std::int64_t root, const std::string& own);

// What is known of an exception: code and message of a base::Error, else rank_failed and what().
[[nodiscard]] Failure describe_failure(const std::exception_ptr& error);

// Collective over `group`. Returns if no rank passed a failure. Otherwise every rank throws the AgreedError of the
// first rank that did: its code, and "rank 2: " before its message where the group has several ranks.
void agree(Communicator& group, const std::optional<Failure>& failure);

// Collective over `group`: calls `action`, which communicates with nobody, and agrees on what it threw.
void agree_on(Communicator& group, const std::function<void()>& action);

}  // namespace tessera::comm

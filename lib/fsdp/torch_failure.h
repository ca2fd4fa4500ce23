// What comm::describe_failure says of an exception, and of LibTorch's errors without their stack traces.
#pragma once

#include <exception>

#include "comm/agreement.h"

namespace tessera::fsdp {

// rank_failed for an error of LibTorch.
[[nodiscard]] comm::Failure describe_failure(const std::exception_ptr& error);

}  // namespace tessera::fsdp

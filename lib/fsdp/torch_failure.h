// Describes exceptions as comm::describe_failure does, and LibTorch's errors without their stack traces.
#pragma once

#include <exception>

#include "comm/agreement.h"

namespace tessera::fsdp {

// Returns rank_failed and the message of an error of LibTorch; comm::describe_failure's result for other exceptions.
[[nodiscard]] comm::Failure describe_failure(const std::exception_ptr& error);

}  // namespace tessera::fsdp

// The message of an error of LibTorch.
#pragma once

#include <exception>
#include <optional>
#include <string>

namespace tessera::device {

// Returns the message of an error that LibTorch threw, without its stack trace; nothing for any other exception.
[[nodiscard]] std::optional<std::string> torch_message(const std::exception_ptr& error);

}  // namespace tessera::device

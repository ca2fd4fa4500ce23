// Peak memory of one computation, measured in a process of its own.
#pragma once

#include <cstdint>
#include <functional>

namespace tessera::bench {

// Runs `body` in a forked child; returns the bytes by which its peak resident size exceeds that of a child that does
// nothing. The caller must have no other threads. Throws std::runtime_error if the child fails.
[[nodiscard]] std::int64_t peak_bytes(const std::function<void()>& body);

}  // namespace tessera::bench

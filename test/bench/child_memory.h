// Peak memory of one computation, measured in a process of its own.
#pragma once

#include <cstdint>
#include <functional>

namespace tessera::bench {

// Bytes by which the peak resident size of a forked child grows over that of a child that does nothing. The caller has
// no threads. Throws std::runtime_error if the child fails.
[[nodiscard]] std::int64_t peak_bytes(const std::function<void()>& body);

}  // namespace tessera::bench

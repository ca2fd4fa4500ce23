// If this failed, buffers would overlap or be smaller than asked for, or a lack of memory would go unnoticed.
#include "device/memory.h"

#include <cstring>

#include "base/error.h"
#include "device/stream.h"
#include "support/catch.h"

namespace tessera::device {
namespace {

TEST_CASE("memory is aligned and can be written to its end, that of no bytes too") {
  for (const std::int64_t bytes : {0, 1, 255, 256, 257, 100'003}) {
    const auto memory = allocate(MemoryKind::host, bytes);
    REQUIRE(memory != nullptr);
    CHECK(reinterpret_cast<std::uintptr_t>(memory.get()) % 64 == 0);
    std::memset(memory.get(), 1, static_cast<std::size_t>(bytes));
  }
}

TEST_CASE("the memory of the CPU's place is the host's, of the GPU's the GPU's") {
  CHECK(memory_of(Place::cpu) == MemoryKind::host);
  CHECK(memory_of(Place::cuda) == MemoryKind::cuda);
}

TEST_CASE("more memory than there is, is an error that names the bytes and the way out") {
  try {
    static_cast<void>(allocate(MemoryKind::host, std::int64_t{1} << 60));
    FAIL("there was so much");
  } catch (const base::Error& error) {
    CHECK(error.code() == base::ExitCode::bad_input);
    CHECK_THAT(error.what(), Catch::Matchers::ContainsSubstring("not enough memory for a buffer of 1.00 EiB"));
    CHECK_THAT(error.what(), Catch::Matchers::ContainsSubstring("use a smaller model, more ranks"));
  }
}

TEST_CASE("memory of the host is filled at once, and nothing beside it") {
  const auto memory = allocate(MemoryKind::host, 256);
  std::memset(memory.get(), 7, 256);
  fill(Place::cpu, memory.get() + 1, 0xab, 11);
  for (int k = 0; k < 20; ++k)
    CHECK(static_cast<int>(memory[static_cast<std::size_t>(k)]) == (1 <= k && k < 12 ? 0xab : 7));
  fill(Place::cpu, nullptr, 0, 0);
}

TEST_CASE("an event of no stream has passed") {
  const Event none;
  CHECK(none.has_passed());
  none.synchronize();
  CHECK_THROWS_AS(none.seconds_since(Event()), std::logic_error);
}

}  // namespace
}  // namespace tessera::device

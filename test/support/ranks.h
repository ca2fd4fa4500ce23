// For tests that several ranks run together: every rank runs the same tests in the same order.
#pragma once

#include <string>

#include "comm/world.h"

namespace tessera::test {

// Returns the world of this test program's ranks, which its main has started. The environment's
// TESSERA_TEST_MESSAGE_BYTES limits the size of messages; TESSERA_TEST_READ_BYTES sets WorldOptions::read_bytes. The
// program's exit code is the worst of all ranks; its lines begin with the rank.
[[nodiscard]] comm::World& world();

// Collective over the world. Returns on every rank the ranks that passed false ("0, 2"), or "none".
[[nodiscard]] std::string failing_ranks(bool ok);

}  // namespace tessera::test

// Collective over the world. Fails on every rank if the condition does not hold on all of them, so that no rank goes on
// alone into the next collective. Use it for every condition that may fail on one rank only.
#define CHECK_ON_ALL(...) CHECK(tessera::test::failing_ranks(static_cast<bool>(__VA_ARGS__)) == "none")
#define REQUIRE_ON_ALL(...) REQUIRE(tessera::test::failing_ranks(static_cast<bool>(__VA_ARGS__)) == "none")

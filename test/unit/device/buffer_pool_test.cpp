// If this failed, units would overwrite each other's buffers, or a use after a free would go unnoticed.
#include "device/buffer_pool.h"

#include <cmath>
#include <cstring>

#include "support/catch.h"

namespace tessera::device {
namespace {

float first_float(const std::byte* memory) {
  float value = 0;
  std::memcpy(&value, memory, sizeof value);
  return value;
}

TEST_CASE("slots that are taken together lie apart, and one that is given back is taken again") {
  BufferPool pool("tests", {{192, 2}, {64, 1}}, Poison::off);
  CHECK(pool.allocated_bytes() == 2 * 192 + 64);
  auto* a = pool.take(192);
  auto* b = pool.take(192);
  CHECK(std::abs(a - b) >= 192);
  for (const auto* slot : {a, b}) CHECK(reinterpret_cast<std::uintptr_t>(slot) % 64 == 0);
  pool.give_back(a, 192);
  CHECK(pool.take(192) == a);
}

TEST_CASE("more slots than planned, or of another size, are the programmer's fault and name the purpose") {
  BufferPool pool("gathered weights", {{64, 1}}, Poison::off);
  static_cast<void>(pool.take(64));
  CHECK_THROWS_WITH(pool.take(64), Catch::Matchers::ContainsSubstring("64 bytes for gathered weights"));
  CHECK_THROWS_WITH(pool.take(128), Catch::Matchers::ContainsSubstring("128 bytes for gathered weights"));
}

TEST_CASE("no bytes need no slot") {
  BufferPool pool("tests", {}, Poison::fill_with_nan);
  CHECK(pool.take(0) == nullptr);
  pool.give_back(nullptr, 0);
  CHECK(pool.poison() == nullptr);
}

TEST_CASE("poison fills slots before their first use and after each") {
  BufferPool pool("tests", {{64, 1}, {128, 1}}, Poison::fill_with_nan);
  auto* slot = pool.take(64);
  CHECK(std::isnan(first_float(slot)));
  std::memset(slot, 0, 64);
  pool.give_back(slot, 64);
  CHECK(std::isnan(first_float(slot + 60)));
  CHECK(std::isnan(first_float(pool.poison() + 124)));
}

}  // namespace
}  // namespace tessera::device

// If this failed, the start page and the step lines would show wrong numbers.
#include "base/quantity.h"
#include "base/clock.h"
#include "base/parameter_spec.h"
#include "support/catch.h"

#include <limits>

using namespace tessera::base;

TEST_CASE("bytes are shown in binary units") {
  CHECK(format_bytes(0) == "0 B");
  CHECK(format_bytes(1023) == "1023 B");
  CHECK(format_bytes(1024) == "1.00 KiB");
  CHECK(format_bytes(1536) == "1.50 KiB");
  CHECK(format_bytes(1024 * 1024 - 1) == "1.00 MiB");
  CHECK(format_bytes(std::uint64_t{12} << 20) == "12.0 MiB");
  CHECK(format_bytes(std::uint64_t{1000} << 30) == "1000 GiB");
  CHECK(format_bytes(std::numeric_limits<std::uint64_t>::max()) == "16.0 EiB");
}

TEST_CASE("counts are shown in decimal units") {
  CHECK(format_count(0) == "0");
  CHECK(format_count(999) == "999");
  CHECK(format_count(1000) == "1.00k");
  CHECK(format_count(1234567) == "1.23M");
  CHECK(format_count(999999) == "1.00M");
  CHECK(format_count(30532122624) == "30.5B");
  CHECK(format_count(-45600) == "-45.6k");
  CHECK(format_count(std::numeric_limits<std::int64_t>::min()) == "-9.22E");
}

TEST_CASE("durations are shown in the units of their size") {
  CHECK(format_seconds(0) == "0.00 ms");
  CHECK(format_seconds(0.0123) == "12.3 ms");
  CHECK(format_seconds(0.99999) == "1.00 s");
  CHECK(format_seconds(5.314) == "5.31 s");
  CHECK(format_seconds(59.99) == "1 min 00 s");
  CHECK(format_seconds(185) == "3 min 05 s");
  CHECK(format_seconds(7380) == "2 h 03 min");
  CHECK(format_seconds(4 * 86400 + 2 * 3600 + 5) == "4 d 02 h");
  CHECK(format_seconds(std::numeric_limits<double>::infinity()) == "inf s");
}

TEST_CASE("the clock does not go back and the time of day has ISO form") {
  const double before = seconds_now();
  CHECK(seconds_now() >= before);
  const std::string time = utc_time();
  REQUIRE(time.size() == 20);
  CHECK(time[4] == '-');
  CHECK(time[10] == 'T');
  CHECK(time.back() == 'Z');
}

TEST_CASE("the number of elements is the product of the shape") {
  CHECK(elements({"a", {3, 5, 7}}) == 105);
  CHECK(elements({"scalar", {}}) == 1);
  CHECK(elements({"empty", {0, 5}}) == 0);
}

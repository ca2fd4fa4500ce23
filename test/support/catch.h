// Includes Catch2 of the installed version: one header in version 2, several in version 3.
#pragma once

#undef CHECK  // c10/util/Logging.h has one too

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
using Catch::Approx;
#else
#include <catch2/catch.hpp>
namespace Catch::Matchers {
// Version 3's name for version 2's Contains.
inline auto ContainsSubstring(const std::string& part) { return Contains(part); }
}  // namespace Catch::Matchers
#endif

# Catch2::Catch2, the test framework. Debian: catch2 (2.13). Version 3 works too: test/support/catch.h picks the header.
find_package(Catch2 REQUIRED CONFIG)

// The words of a command line.
#pragma once

#include <string>
#include <vector>

namespace tessera::test {

using Words = std::vector<std::string>;

// Returns the words of `a`, then those of `b`.
[[nodiscard]] inline Words joined(Words a, const Words& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace tessera::test

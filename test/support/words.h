// Words of a command line, as tests put them together.
#pragma once

#include <string>
#include <vector>

namespace tessera::test {

using Words = std::vector<std::string>;

// The first words, then the others.
[[nodiscard]] inline Words joined(Words a, const Words& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace tessera::test

#include "support/skips.h"

#include <cstdlib>
#include <fstream>
#include <iostream>

namespace tessera::test {

void note_skip(const std::string& what, const std::string& why) {
  std::cout << "not tried: " << what << ": " << why << '\n';
  const char* const file = std::getenv("TESSERA_SKIPS");
  if (file == nullptr) return;
  std::ofstream(file, std::ios::app) << (what + ": " + why + "\n") << std::flush;
}

}  // namespace tessera::test

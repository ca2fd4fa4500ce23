// Parts of tests that cannot be tried on this machine. A test that silently does less than it says would count as
// passed.
#pragma once

#include <string>

namespace tessera::test {

// Tells that `what` is not tried here, and why: on standard output, and as a line "what: why" at the end of the file
// that TESSERA_SKIPS names. scripts/test.sh lists them, and in continuous integration lets only those pass that
// test/expected_skips.txt names.
void note_skip(const std::string& what, const std::string& why);

}  // namespace tessera::test

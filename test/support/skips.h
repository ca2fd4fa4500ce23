// Notes the parts of tests that cannot run on this machine. A test that silently did less than it says would count as
// passed.
#pragma once

#include <string>

namespace tessera::test {

// Reports that `what` is not tried here, and why: on standard output, and as a line "what: why" appended to the file
// that TESSERA_SKIPS names. scripts/test.sh lists these lines; in continuous integration it accepts only those that
// test/expected_skips.txt names.
void note_skip(const std::string& what, const std::string& why);

}  // namespace tessera::test

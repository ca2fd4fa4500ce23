// If this failed, a file that once crashed a reader, or one like it, would crash it again.
#include <filesystem>

#include "base/file.h"
#include "fuzz/targets.h"
#include "support/catch.h"

namespace tessera::test {
namespace {

TEST_CASE("every committed input of the fuzzers is read or refused, also cut short") {
  for (const auto& target : fuzz_targets) {
    const auto corpus = std::filesystem::path(TESSERA_SOURCE_DIR) / "test/fuzz/corpus" / target.name;
    std::size_t inputs = 0;
    for (const auto& entry : std::filesystem::directory_iterator(corpus)) {
      INFO(entry.path().string());
      const auto content = base::read_file(entry.path());
      CHECK_NOTHROW(target.run(content));
      CHECK_NOTHROW(target.run(std::string_view(content).substr(0, content.size() / 2)));
      CHECK_NOTHROW(target.run(std::string_view(content).substr(0, content.size() - content.size() / 7)));
      ++inputs;
    }
    INFO(target.name);
    CHECK(inputs > 3);
  }
}

}  // namespace
}  // namespace tessera::test

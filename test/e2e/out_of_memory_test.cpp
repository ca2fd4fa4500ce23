// If this failed, a rank that runs out of memory would not say in which instruction, or how many rows it had been sent.
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "support/catch.h"
#include "support/error_of.h"
#include "support/small_run.h"

namespace tessera::test {
namespace {

using Catch::Matchers::ContainsSubstring;

// Leaves the process `bytes` beyond what it has mapped.
class MemoryLimit {
 public:
  explicit MemoryLimit(std::uint64_t bytes) {
    REQUIRE(getrlimit(RLIMIT_AS, &before_) == 0);
    std::uint64_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    rlimit limited{pages * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE)) + bytes, before_.rlim_max};
    REQUIRE(setrlimit(RLIMIT_AS, &limited) == 0);
  }
  ~MemoryLimit() { setrlimit(RLIMIT_AS, &before_); }
  MemoryLimit(const MemoryLimit&) = delete;
  MemoryLimit& operator=(const MemoryLimit&) = delete;

 private:
  rlimit before_{};
};

#if defined(__SANITIZE_ADDRESS__)
constexpr bool lends_memory = false;  // its allocator ends the process instead
#else
constexpr bool lends_memory = true;
#endif

// MOE-7: the rows are those that the router sent here, in one buffer of their real number.
TEST_CASE("an instruction without memory is named with its layer and its rows") {
  if (!lends_memory) return;
  const SmallRun files;
  files.folder().write("long.txt", std::string(70000, 'a'));
  Start start(files.settings({"--data.train_path", files.folder() / "long.txt", "--data.max_seq_len", "60000",
                              "--model.vocab_size", "257", "--model.max_position_embeddings", "60000",
                              "--model.hidden_size", "512", "--train.global_batch_size", "1"}));
  const auto steps = start.steps(1);
  auto& assembly = start.assembly();
  const auto& program = assembly.program(program::StepKind::train, 1);
  const auto error = [&] {
    const MemoryLimit limit(64 << 20);
    return error_of([&] { static_cast<void>(assembly.executor().run(program, steps[0].inputs)); },
                    base::ExitCode::rank_failed);
  }();
  INFO(error);
  CHECK_THAT(error, ContainsSubstring("Forward "));
  CHECK_THAT(error, ContainsSubstring(" of 60000 rows: "));
  CHECK_THAT(error, ContainsSubstring("memory"));
}

}  // namespace
}  // namespace tessera::test

// If this failed, ranks that pass different lengths to a collective would overwrite other memory, wait for each other,
// or end without a message that says which ranks disagree on what.
#include <algorithm>
#include <cstring>
#include <vector>

#include "base/file.h"
#include "support/catch.h"
#include "support/command.h"
#include "support/temp_folder.h"

namespace tessera::test {
namespace {

using Catch::Matchers::ContainsSubstring;

// Two ranks, of which rank 1 passes `of_rank_1` floats to the operation and rank 0 `elements`. The test fails unless
// the job ends with code 4 and one message, and no rank's memory was written.
std::string message_of(const std::string& operation, std::int64_t elements, std::int64_t of_rank_1) {
  const TempFolder folder;
  const auto ended = run_command({MPIRUN, "-n", "2", DISAGREEING_RANKS, operation, std::to_string(elements),
                                  std::to_string(of_rank_1), folder.path().string()});
  INFO(operation << " of " << elements << " and " << of_rank_1 << ": " << ended.err);
  CHECK(ended.code == 4);
  CHECK(count_of("] error ", ended.err) == 1);
  CHECK_THAT(ended.err, !ContainsSubstring("MPI_ERR_TRUNCATE") && !ContainsSubstring("has not ended after"));
  for (const char* rank : {"0", "1"}) {
    const auto memory = base::read_file(folder / rank);
    std::vector<float> values(memory.size() / sizeof(float));
    std::memcpy(values.data(), memory.data(), values.size() * sizeof(float));
    CHECK(std::all_of(values.begin(), values.end(), [](float value) { return value == 1; }));
  }
  return ended.err;
}

// Either rank may find out first; both say the same of it.
void check_names_both(const std::string& message, const std::string& operation, std::int64_t elements,
                      std::int64_t of_rank_1) {
  const auto bytes = [](std::int64_t count) { return std::to_string(4 * count) + " bytes"; };
  CHECK_THAT(message, ContainsSubstring(operation + " of ") && ContainsSubstring("in group experts (ranks 0, 1): "));
  CHECK_THAT(message, ContainsSubstring("rank 1 passes " + bytes(of_rank_1) + " and rank 0 passes " +
                                        std::to_string(4 * elements) + ": the ranks disagree on the counts") ||
                          ContainsSubstring("rank 0 passes " + bytes(elements) + " and rank 1 passes " +
                                            std::to_string(4 * of_rank_1) + ": the ranks disagree on the counts") ||
                          ContainsSubstring("rank 1 sends " + bytes(of_rank_1) + " to rank 0, which expects " +
                                            std::to_string(4 * elements)) ||
                          ContainsSubstring("rank 0 sends " + bytes(elements) + " to rank 1, which expects " +
                                            std::to_string(4 * of_rank_1)));
}

// Short ones; a short one and one in several messages; two of those; one that is long enough to be read, and two.
constexpr std::pair<std::int64_t, std::int64_t> lengths[] = {
    {5, 7}, {7, 5},      {5, 12'000}, {12'000, 5}, {12'000, 12'001}, {12'000, 500'000}, {600'000, 500'000},
    {0, 7}, {600'000, 0}};

TEST_CASE("a sum that is longer or shorter on one rank is found before memory is written") {
  for (const auto& [elements, of_rank_1] : lengths)
    check_names_both(message_of("all_reduce", elements, of_rank_1), "all_reduce", elements, of_rank_1);
  // One of them is summed whole by every rank, the other one in blocks.
  check_names_both(message_of("all_reduce", 8192, 8193), "all_reduce", 8192, 8193);
}

TEST_CASE("whatever is gathered, reduced, exchanged or broadcast is as long as its place before memory is written") {
  std::size_t next = 0;
  for (const char* operation : {"gather_blocks", "reduce_blocks", "all_to_all_rows", "broadcast"})
    for (int k = 0; k < 4; ++k) {
      const auto& [elements, of_rank_1] = lengths[next++ % std::size(lengths)];
      check_names_both(message_of(operation, elements, of_rank_1), operation, elements, of_rank_1);
    }
}

TEST_CASE("ranks that are in different operations are told which, also where their lengths are equal") {
  const auto other = message_of("all_reduce:gather_blocks", 5, 5);
  CHECK_THAT(other, ContainsSubstring("rank 1 is in gather_blocks where rank 0 is in all_reduce") ||
                        ContainsSubstring("rank 0 is in all_reduce where rank 1 is in gather_blocks"));
  const auto meeting = message_of("barrier:all_to_all_rows", 5, 1);
  CHECK_THAT(meeting,
             ContainsSubstring("is in barrier where rank ") || ContainsSubstring("is in all_to_all_rows where "));
  check_names_both(message_of("agreement:all_reduce", 1, 7), "all_reduce", 1, 7);
}

}  // namespace
}  // namespace tessera::test

// If this failed, one rank's full or broken disk would leave the other ranks waiting, or let them take a failed save
// for a good one.
#include "checkpoint/saver.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>

#include "base/hash.h"
#include "checkpoint/folder.h"
#include "comm/agreement.h"
#include "shared_folder.h"
#include "support/catch.h"
#include "support/faulty_files.h"
#include "support/ranks.h"
#include "support/saved_numbers.h"
#include "support/small_run.h"

namespace tessera::checkpoint {
namespace {

using Catch::Matchers::ContainsSubstring;
using test::FailingCall;
using test::Marked;

comm::Communicator& ranks() { return *test::world().communicator(); }

class Tiny {
 public:
  Tiny()
      : start_(files_.settings({"--model.num_hidden_layers", "1", "--train.optimizer.type", "sgd"}),
               test::world().communicator()) {}

  [[nodiscard]] std::unique_ptr<Saver> saver(const base::Path& output, base::FileSystem& files) {
    auto& a = start_.assembly();
    return std::make_unique<Saver>(SaverOptions{.output = output, .keep_last = 1}, a.store(), a.optimizer(),
                                   a.blueprint().layout, a.world(), files);
  }
  SaveResult save(Saver& saver, Marked what, SaveMode mode) {
    test::fill_with(start_.assembly(), what.mark);
    saver.start(test::facts_of_step(what.step), mode);
    auto result = saver.finish();
    REQUIRE_ON_ALL(result.has_value());
    return *result;
  }

 private:
  test::SmallRun files_;
  test::Start start_;
};

bool on_any(bool here) {
  for (const auto there : comm::numbers_of_ranks(ranks(), here ? 1 : 0))
    if (there != 0) return true;
  return false;
}

bool is_the_same_on_all(const std::string& text) {
  for (const auto hash : comm::numbers_of_ranks(ranks(), static_cast<std::int64_t>(base::xxh3(text))))
    if (hash != static_cast<std::int64_t>(base::xxh3(text))) return false;
  return true;
}

struct Fault {
  std::int64_t rank = 0;
  int error = 0;
  FailingCall::Lasts lasts{};
  SaveMode mode{};
};

// Makes three saves; in the second one the n-th call of one rank fails. Returns false if the rank makes fewer calls.
bool survives_failure(Tiny& tiny, const Fault& fault, std::int64_t nth) {
  const test::SharedFolder output;
  FailingCall failing;
  test::FaultyFiles files(std::ref(failing));
  const auto saver = tiny.saver(output.path(), files);
  REQUIRE_ON_ALL(!tiny.save(*saver, {1, 1}, SaveMode::wait).failure.has_value());
  if (ranks().rank() == fault.rank) failing.arm(nth, fault.error, fault.lasts);
  const auto result = tiny.save(*saver, {2, 2}, fault.mode);
  const bool failed = on_any(failing.has_failed());
  failing.repair();

  CHECK_ON_ALL(is_the_same_on_all(result.failure.value_or("")));
  const auto latest = test::latest_of(output.path());
  if (result.failure) {
    CHECK_ON_ALL(failed);
    CHECK_ON_ALL(latest == Marked{1, 1} || latest == Marked{2, 2});
    CHECK_THAT(*result.failure, ContainsSubstring(fmt::format("rank {}: ", fault.rank)) &&
                                    ContainsSubstring(output.path().string()) &&
                                    ContainsSubstring(std::strerror(fault.error)));
  } else {
    CHECK_ON_ALL(latest == Marked{2, 2});
  }
  ranks().barrier();
  REQUIRE_ON_ALL(!tiny.save(*saver, {3, 3}, fault.mode).failure.has_value());
  CHECK_ON_ALL(test::latest_of(output.path()) == Marked{3, 3});
  return failed;
}

TEST_CASE("a call of any rank that fails is told to all ranks, and costs neither the latest checkpoint nor the next") {
  Tiny tiny;
  const auto last = ranks().size() - 1;
  using enum FailingCall::Lasts;
  for (const auto& fault :
       {Fault{0, ENOSPC, until_repaired, SaveMode::wait}, Fault{0, EIO, once, SaveMode::background},
        Fault{last, EIO, once, SaveMode::wait}, Fault{last, ENOSPC, until_repaired, SaveMode::background}}) {
    CAPTURE(fault.rank, std::strerror(fault.error), fault.mode == SaveMode::wait);
    std::int64_t nth = 0;
    for (bool failed = true; failed; ++nth) {
      CAPTURE(nth);
      failed = survives_failure(tiny, fault, nth);
    }
    CHECK(nth > 5);
  }
}

TEST_CASE("the failure of several ranks is told once, as that of the first") {
  Tiny tiny;
  const test::SharedFolder output;
  FailingCall failing;
  test::FaultyFiles files(std::ref(failing));
  const auto saver = tiny.saver(output.path(), files);
  // Rank 0 first removes and makes the folder.
  failing.arm(ranks().rank() == 0 ? 3 : 1, ENOSPC, FailingCall::Lasts::until_repaired);
  const auto result = tiny.save(*saver, {1, 1}, SaveMode::wait);
  CHECK_ON_ALL(failing.has_failed());
  REQUIRE_ON_ALL(result.failure.has_value());
  CHECK_THAT(*result.failure, Catch::Matchers::StartsWith("rank 0: ") && !ContainsSubstring("rank 1"));
}

}  // namespace
}  // namespace tessera::checkpoint

// If this failed, a full or broken disk, a kill, or a power cut during a save would destroy the last good checkpoint,
// or let an incomplete one be loaded.
#include "checkpoint/saver.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/folder.h"
#include "checkpoint/stored_checkpoint.h"
#include "support/catch.h"
#include "support/error_of.h"
#include "support/faulty_files.h"
#include "support/heard_syncs.h"
#include "support/saved_numbers.h"
#include "support/small_run.h"

namespace tessera::checkpoint {
namespace {

using Catch::Matchers::ContainsSubstring;
using test::FailingCall;
using test::FileCall;
using test::Marked;

// A model of a few parameters and their moments.
class Tiny {
 public:
  Tiny()
      : start_(files_.settings({"--model.num_hidden_layers", "1", "--train.optimizer.type", "sgd",
                                "--train.optimizer.momentum", "0.5"})) {}

  [[nodiscard]] train::Assembly& assembly() { return start_.assembly(); }
  [[nodiscard]] std::unique_ptr<Saver> saver(const base::Path& output, base::FileSystem& files,
                                             std::int64_t keep_last = 0) {
    auto& a = start_.assembly();
    return std::make_unique<Saver>(SaverOptions{.output = output, .keep_last = keep_last}, a.store(), a.optimizer(),
                                   a.blueprint().layout, a.world(), files);
  }
  SaveResult save(Saver& saver, Marked what, SaveMode mode = SaveMode::wait) {
    test::fill_with(assembly(), what.mark);
    saver.start(test::facts_of_step(what.step), mode);
    if (mode == SaveMode::background) {  // training goes on
      assembly().optimizer().step(0, 0);
      test::fill_with(assembly(), -1);
    }
    auto result = saver.finish();
    REQUIRE(result.has_value());
    return *result;
  }

 private:
  test::SmallRun files_;
  test::Start start_;
};

// A disk that cannot swap two names.
class PlainFiles final : public test::FaultyFiles {
 public:
  using FaultyFiles::FaultyFiles;
  void exchange(const base::Path& a, const base::Path& b) override { base::exchange_by_renames(a, b, *this); }
};

enum class Swaps { at_once, by_renames };

struct Fault {
  int error = 0;
  FailingCall::Lasts lasts{};
  SaveMode mode{};
  Swaps swaps = Swaps::at_once;
};

const std::vector<Fault>& faults() {
  using enum FailingCall::Lasts;
  static const std::vector<Fault> list{{ENOSPC, once, SaveMode::wait},
                                       {EIO, once, SaveMode::wait},
                                       {EIO, once, SaveMode::wait, Swaps::by_renames},
                                       {ENOSPC, until_repaired, SaveMode::wait},
                                       {EIO, once, SaveMode::background},
                                       {ENOSPC, until_repaired, SaveMode::background}};
  return list;
}

struct Story {
  std::string name;
  std::vector<Marked> before;  // saved on a sound disk
  Marked faulty;
  std::int64_t keep_last = 0;
};

const std::vector<Story>& stories() {
  static const std::vector<Story> list{
      {"the first save of a run", {}, {1, 1}, 0},
      {"a save beside another", {{1, 1}}, {2, 2}, 0},
      {"a save after which the one before it goes", {{1, 1}}, {2, 2}, 1},
      {"a save in place of one of the same step", {{1, 1}, {2, 2}}, {2, 3}, 1},
  };
  return list;
}

bool has_unfinished(const base::Path& output) { return !list_checkpoints(output).unfinished.empty(); }

// Makes the saves of `story`; the n-th call of the last save fails. Returns false if that save has fewer calls.
bool survives_failure(Tiny& tiny, const Story& story, const Fault& fault, std::int64_t nth) {
  const test::TempFolder output(test::TempFolder::in_memory());
  FailingCall failing;
  test::FaultyFiles whole(std::ref(failing));
  PlainFiles plain(std::ref(failing));
  auto& files = fault.swaps == Swaps::at_once ? whole : static_cast<base::FileSystem&>(plain);
  const auto saver = tiny.saver(output.path(), files, story.keep_last);
  for (const auto& good : story.before) REQUIRE_FALSE(tiny.save(*saver, good).failure.has_value());
  failing.arm(nth, fault.error, fault.lasts);
  const auto result = tiny.save(*saver, story.faulty, fault.mode);
  const bool failed = failing.has_failed();
  failing.repair();

  const auto latest = test::latest_of(output.path());
  std::optional<Marked> before;
  if (!story.before.empty()) before = story.before.back();
  if (result.failure) {
    CHECK(failed);
    CHECK((latest == before || latest == story.faulty));
    CHECK_THAT(*result.failure,
               ContainsSubstring(output.path().string()) && ContainsSubstring(std::strerror(fault.error)));
  } else {
    CHECK(latest == story.faulty);
    // What goes wrong once the checkpoint is whole is told, and fails nothing.
    CHECK(result.notes.empty() != failed);
  }
  if (before) CHECK_FALSE(list_checkpoints(output.path()).whole.empty());

  REQUIRE_FALSE(tiny.save(*saver, {9, 9}, fault.mode).failure.has_value());
  CHECK(test::latest_of(output.path()) == Marked{9, 9});
  if (story.keep_last == 1) CHECK(list_checkpoints(output.path()).whole.size() == 1);
  return failed;
}

TEST_CASE(
    "whichever call of a save fails, the latest checkpoint is whole, the old one or the new one, and the next save is "
    "good") {
  Tiny tiny;
  for (const auto& story : stories())
    for (const auto& fault : faults()) {
      CAPTURE(story.name, std::strerror(fault.error), fault.lasts == FailingCall::Lasts::once,
              fault.mode == SaveMode::wait, fault.swaps == Swaps::at_once);
      std::int64_t nth = 0;
      for (bool failed = true; failed; ++nth) {
        CAPTURE(nth);
        failed = survives_failure(tiny, story, fault, nth);
      }
      CHECK(nth > 40);
    }
}

TEST_CASE(
    "where names cannot be swapped, a kill between the renames leaves the old checkpoint loadable and its rest "
    "reported") {
  Tiny tiny;
  const test::TempFolder output(test::TempFolder::in_memory());
  int renames = 0, last = 1000;
  PlainFiles files([&](FileCall call, const base::Path& path) {
    if (call == FileCall::rename && path.filename() != "latest.tmp" && ++renames > last) base::fail("killed");
    if (call == FileCall::remove && renames > last) base::fail("killed");
  });
  const auto saver = tiny.saver(output.path(), files);
  REQUIRE_FALSE(tiny.save(*saver, {1, 1}).failure.has_value());
  for (const auto& [done, mark] : {std::pair{1, 1.0}, {2, 2.0}}) {
    renames = 0;
    last = done;
    CHECK(tiny.save(*saver, {1, 2}).failure.has_value());
    CHECK(test::latest_of(output.path()) == Marked{1, mark});
    CHECK(find_checkpoint(output.path()) == checkpoint_folder(output.path(), 1));
    const auto listing = list_checkpoints(output.path());
    CHECK(listing.whole.size() == 1);
    CHECK(listing.unfinished.size() == 1);
    last = 1000;
    // As the next run does.
    for (const auto& folder : listing.unfinished) base::posix_file_system().remove(folder);
    CHECK(test::latest_of(output.path()) == Marked{1, mark});
    REQUIRE_FALSE(tiny.save(*saver, {1, 1}).failure.has_value());
    CHECK(test::latest_of(output.path()) == Marked{1, 1});
    for (const auto& folder : list_checkpoints(output.path()).unfinished) base::posix_file_system().remove(folder);
  }
  remove_checkpoint(output.path(), 1, files);
  CHECK(list_checkpoints(output.path()).whole.empty());
}

TEST_CASE("a save that fails leaves nothing half done when the disk lets it tidy up") {
  Tiny tiny;
  for (std::int64_t nth = 0;; ++nth) {
    CAPTURE(nth);
    const test::TempFolder output(test::TempFolder::in_memory());
    FailingCall failing;
    test::FaultyFiles files(std::ref(failing));
    const auto saver = tiny.saver(output.path(), files);
    failing.arm(nth, ENOSPC, FailingCall::Lasts::until_repaired);
    const auto result = tiny.save(*saver, {1, 1});
    if (!failing.has_failed()) break;
    CHECK(result.failure.has_value());
    if (nth > 1) CHECK_FALSE(has_unfinished(output.path()));  // the first two: removing and making the folder itself
  }
}

// Says what is wrong with the output folder after a power cut; empty if nothing is. `last` is the last save that had
// ended, `next` the one after it.
std::string fault_after_cut(const base::Path& output, const std::optional<Marked>& last,
                            const std::optional<Marked>& next) {
  try {
    const auto latest = test::latest_of(output);
    if (latest != last && (!latest || latest != next)) return "another save is the latest";
    // Retention leaves nothing that looks whole and is not.
    if (last)
      for (const auto& [step, folder] : list_checkpoints(output).whole)
        static_cast<void>(StoredCheckpoint(folder).verify(0, 1));
  } catch (const base::Error& error) {
    return error.what();
  }
  return {};
}

struct Cuts {
  std::size_t made = 0;
  std::map<std::string, std::size_t> faults;  // what was wrong, and how often
};

// Cuts the power at every point of a few saves, on a disk to which calls of kind `unheard` do not get through.
Cuts cut_power(Tiny& tiny, SaveMode mode, std::optional<FileCall> unheard) {
  const test::TempFolder folder(test::TempFolder::in_memory());
  const auto disk = folder / "disk", after = folder / "after";
  base::make_folder(disk);
  test::RecordedFiles files(disk, unheard);
  base::make_folder(disk / "output", files);
  const auto saver = tiny.saver(disk / "output", files, 1);
  const std::vector<Marked> order{{1, 1}, {2, 2}, {2, 3}, {3, 4}};
  std::vector<std::size_t> ended;
  for (const auto& save : order) {
    REQUIRE_FALSE(tiny.save(*saver, save, mode).failure.has_value());
    ended.push_back(files.size());
  }
  Cuts cuts;
  std::size_t done = 0;
  std::optional<Marked> last;
  for (std::size_t changes = 1; changes <= files.size(); ++changes) {
    for (; done < ended.size() && ended[done] <= changes; ++done) last = order[done];
    std::optional<Marked> next;
    if (done < order.size()) next = order[done];
    for (std::uint64_t choice = 0; choice < 4; ++choice, ++cuts.made) {
      files.build_after_cut(changes, after, test::RecordedFiles::choice(choice < 2 ? choice : changes * 10 + choice));
      if (const auto fault = fault_after_cut(after / "output", last, next); !fault.empty()) ++cuts.faults[fault];
      std::filesystem::remove_all(after);
    }
  }
  return cuts;
}

TEST_CASE("after a power cut at any point there is a whole latest checkpoint, the last that was saved or the next") {
  Tiny tiny;
  for (const auto mode : {SaveMode::wait, SaveMode::background}) {
    const auto cuts = cut_power(tiny, mode, std::nullopt);
    CAPTURE(cuts.faults);
    CHECK(cuts.faults.empty());
    CHECK(cuts.made > 500);
  }
}

TEST_CASE("the power cuts would find a save that does not sync its files, or its folders") {
  Tiny tiny;
  for (const auto unheard : {FileCall::sync, FileCall::sync_folder})
    CHECK_FALSE(cut_power(tiny, SaveMode::wait, unheard).faults.empty());
}

TEST_CASE("the kernel is asked for every file of a checkpoint, its folder, and the file that names the latest") {
  Tiny tiny;
  for (const auto mode : {SaveMode::wait, SaveMode::background}) {
    const test::TempFolder temporary(test::TempFolder::in_memory());
    const auto output = std::filesystem::canonical(temporary.path());
    const auto saver = tiny.saver(output, base::posix_file_system());
    const test::HeardSyncs heard;
    REQUIRE_FALSE(tiny.save(*saver, {1, 1}, mode).failure.has_value());
    const auto synced = heard.so_far();
    const auto is_synced = [&](const base::Path& path) {
      return std::find(synced.begin(), synced.end(), path) != synced.end();
    };
    CAPTURE(synced);
    std::size_t files = 0;
    for (const auto& entry : std::filesystem::directory_iterator(output / "step_000001")) {
      INFO(entry.path());
      CHECK(is_synced(output / "step_000001.tmp" / entry.path().filename()));
      ++files;
    }
    CHECK(files >= 2);
    CHECK(is_synced(output / "step_000001.tmp"));
    CHECK(is_synced(output / "latest.tmp"));
    CHECK(synced.back() == output);
  }
}

TEST_CASE("folders that are unfinished, or have no manifest, count neither as latest nor among those kept") {
  Tiny tiny;
  const test::TempFolder output(test::TempFolder::in_memory());
  const auto saver = tiny.saver(output.path(), base::posix_file_system(), 2);
  REQUIRE_FALSE(tiny.save(*saver, {1, 1}).failure.has_value());
  output.write("step_000007.tmp/shard_00000.safetensors", "half");
  output.write("step_000008/shard_00000.safetensors", "half");
  output.write("step_000002.tmp/manifest.json", "{}");
  CHECK(latest_step(output.path()) == 1);
  REQUIRE_FALSE(tiny.save(*saver, {9, 9}).failure.has_value());
  CHECK(test::latest_of(output.path()) == Marked{9, 9});
  CHECK(list_checkpoints(output.path()).whole.contains(1));
  REQUIRE_FALSE(tiny.save(*saver, {10, 10}).failure.has_value());
  const auto listing = list_checkpoints(output.path());
  CHECK_FALSE(listing.whole.contains(1));
  CHECK(listing.whole.size() == 2);
}

TEST_CASE(
    "a save that ends between its rename and the move of latest leaves the old latest, and the next save is good") {
  Tiny tiny;
  const test::TempFolder output(test::TempFolder::in_memory());
  bool is_killed = false;
  test::FaultyFiles files([&](FileCall call, const base::Path& path) {
    // Nothing is done any more, as after a kill.
    if (is_killed && call == FileCall::create && path.filename() == "latest.tmp") base::fail("killed");
  });
  const auto saver = tiny.saver(output.path(), files, 1);
  REQUIRE_FALSE(tiny.save(*saver, {1, 1}).failure.has_value());
  is_killed = true;
  CHECK(tiny.save(*saver, {2, 2}).failure.has_value());
  CHECK(test::latest_of(output.path()) == Marked{1, 1});
  CHECK(list_checkpoints(output.path()).whole.size() == 2);
  is_killed = false;
  // A resumed run saves step 2 again.
  REQUIRE_FALSE(tiny.save(*saver, {2, 3}).failure.has_value());
  CHECK(test::latest_of(output.path()) == Marked{2, 3});
  CHECK(list_checkpoints(output.path()).whole.size() == 1);
}

}  // namespace
}  // namespace tessera::checkpoint

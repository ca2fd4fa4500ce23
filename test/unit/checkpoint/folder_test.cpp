// If this failed, a run would resume from the wrong or an incomplete checkpoint, or remove checkpoints that it should
// keep.
#include "checkpoint/folder.h"

#include <algorithm>
#include <filesystem>
#include <limits>

#include "checkpoint/sealed_json.h"
#include "support/catch.h"
#include "support/error_of.h"
#include "support/temp_folder.h"

namespace tessera::checkpoint {
namespace {

using Catch::Matchers::Contains;
using Steps = std::vector<std::int64_t>;

// What counts as whole: a folder of the name with a manifest in it, whatever that says.
void add(const test::TempFolder& output, const std::string& folder, const std::string& content = "a") {
  output.write(folder + "/manifest.json", content);
}

std::string content(const test::TempFolder& output, const std::string& folder) {
  return base::read_file(output / folder / "manifest.json");
}

Steps steps_of(const Listing& listing) {
  Steps steps;
  for (const auto& [step, folder] : listing.whole) steps.push_back(step);
  return steps;
}

TEST_CASE("a folder's name has six digits, or as many as it needs") {
  CHECK(folder_name(0) == "step_000000");
  CHECK(folder_name(100) == "step_000100");
  CHECK(folder_name(1234567) == "step_1234567");
  CHECK(unfinished_folder("out", 7) == base::Path("out/step_000007.tmp"));
}

TEST_CASE("only whole checkpoints and unfinished ones are listed, by step") {
  const test::TempFolder output;
  for (const char* whole : {"step_000010", "step_000009", "step_1000000", "step_000000"}) add(output, whole);
  for (const char* other : {"step_10", "step_0000011", "step_-00001", "step_00001x", "step_", "step_000012.bak",
                            "other", "Step_000013", "step_99999999999999999999"})
    add(output, other);
  output.write("step_000014", "a file");
  output.write("step_000015/shard_00000.safetensors", "no manifest");
  std::filesystem::create_directories(output / "step_000016/manifest.json");
  add(output, "step_000018.tmp");
  output.write("step_000017.tmp/shard_00000.safetensors", "");
  add(output, "other.tmp");
  const auto listing = list_checkpoints(output.path());
  CHECK(steps_of(listing) == Steps{0, 9, 10, 1000000});
  CHECK(listing.whole.at(9) == output / "step_000009");
  CHECK(listing.unfinished == std::vector<base::Path>{output / "step_000017.tmp", output / "step_000018.tmp"});
  CHECK(listing.renamed.size() == 9);
  CHECK(list_checkpoints(output / "none").whole.empty());
  CHECK_THAT(test::error_of([&] { static_cast<void>(list_checkpoints(output / "step_000014")); }),
             Contains("step_000014"));
}

TEST_CASE("the last five are named, and how many more there are") {
  const test::TempFolder output;
  CHECK(describe(list_checkpoints(output.path())) == "none");
  for (int step = 1; step <= 5; ++step) add(output, folder_name(step));
  CHECK(describe(list_checkpoints(output.path())) == "step_000001, step_000002, step_000003, step_000004, step_000005");
  for (int step = 6; step <= 8; ++step) add(output, folder_name(step));
  CHECK(describe(list_checkpoints(output.path())) ==
        "3 more and step_000004, step_000005, step_000006, step_000007, step_000008");
}

TEST_CASE("`latest` decides, newer checkpoints of another course or not; without it the newest whole one is meant") {
  const test::TempFolder output;
  CHECK_FALSE(latest_step(output.path()).has_value());
  CHECK_FALSE(latest_step(output / "none").has_value());
  add(output, "step_000003");
  add(output, "step_000008");
  output.write("step_000009.tmp/manifest.json", "");
  CHECK(latest_step(output.path()) == 8);
  output.write("latest", seal("  \"step\": 3"));
  CHECK(latest_step(output.path()) == 3);
}

TEST_CASE("a `latest` that is damaged, or names a missing checkpoint, is an error that lists those there are") {
  const test::TempFolder output;
  add(output, "step_000003");
  const auto refusal = [&](const std::string& latest) {
    output.write("latest", latest);
    return test::error_of([&] { static_cast<void>(latest_step(output.path())); });
  };
  CHECK_THAT(refusal(seal("  \"step\": 4")),
             Contains("latest names step_000004, which is not there; whole checkpoints there: step_000003"));
  auto damaged = seal("  \"step\": 3");
  damaged[damaged.find('3')] = '2';
  for (const auto& text : {damaged, std::string(), std::string("step_000003"), seal("  \"step\": -3"),
                           seal("  \"step\": 3.5"), seal("  \"steps\": 3"), seal("  \"step\": \"3\""),
                           seal("  \"step\": 18446744073709551615"), std::string(5000, ' ')}) {
    CAPTURE(text);
    CHECK_THAT(refusal(text), Contains((output / "latest").string()) && Contains("step_000003"));
  }
  std::filesystem::remove(output / "latest");
  std::filesystem::create_symlink("nowhere", output / "latest");
  CHECK_THAT(test::error_of([&] { static_cast<void>(latest_step(output.path())); }), Contains("latest"));
}

TEST_CASE("a path means a checkpoint, or an output folder's latest; else those beside it are named") {
  const test::TempFolder output;
  add(output, "step_000003");
  add(output, "step_000008");
  output.write("latest", seal("  \"step\": 3"));
  CHECK(find_checkpoint(output / "step_000008") == output / "step_000008");
  CHECK(find_checkpoint(output.path()) == output / "step_000003");
  add(output, "best model, kept");  // by another name
  CHECK(find_checkpoint(output / "best model, kept") == output / "best model, kept");
  const auto refusal = [](const base::Path& path) {
    return test::error_of([&] { static_cast<void>(find_checkpoint(path)); });
  };
  const auto there = "checkpoints in " + output.path().string() + ": step_000003, step_000008";
  CHECK_THAT(refusal(output / "step_000999"), Contains("is not the folder of a checkpoint; " + there));
  CHECK_THAT(refusal(output / "step_000999/"), Contains("is not the folder of a checkpoint; " + there));
  CHECK_THAT(refusal(output / "latest"), Contains(there));
  std::filesystem::create_directory(output / "empty");
  CHECK_THAT(refusal(output / "empty"), Contains("is a folder without a whole checkpoint; " + there));
  CHECK_THAT(refusal(output / "none/step_000001"), Contains("none/step_000001") && Contains(": none"));
}

TEST_CASE("a commit gives the unfinished folder its name, in place of an earlier one, and moves `latest`") {
  const test::TempFolder output;
  auto& files = base::posix_file_system();
  add(output, "step_000004.tmp", "first");
  commit(output.path(), 4, files);
  CHECK(content(output, "step_000004") == "first");
  CHECK(latest_step(output.path()) == 4);
  add(output, "step_000006.tmp", "second");
  commit(output.path(), 6, files);
  CHECK(latest_step(output.path()) == 6);
  // The run went back, and reaches step 4 again.
  add(output, "step_000004.tmp", "again");
  commit(output.path(), 4, files);
  CHECK(content(output, "step_000004") == "again");
  CHECK(latest_step(output.path()) == 4);
  const auto listing = list_checkpoints(output.path());
  CHECK(steps_of(listing) == Steps{4, 6});
  CHECK(listing.unfinished.empty());
  // A folder that has the name but is no checkpoint belongs to the user.
  output.write("step_000007/notes.txt", "mine");
  output.write("step_000007.1", "taken");
  add(output, "step_000007.tmp", "third");
  CHECK(commit(output.path(), 7, files) == output / "step_000007.2");
  CHECK(base::read_file(output / "step_000007.2/notes.txt") == "mine");
  CHECK(content(output, "step_000007") == "third");
}

TEST_CASE("a removed checkpoint is gone, and so are the remains of an earlier removal") {
  const test::TempFolder output;
  add(output, "step_000004");
  add(output, "step_000004.tmp");
  add(output, "step_000005");
  remove_checkpoint(output.path(), 4, base::posix_file_system());
  CHECK(steps_of(list_checkpoints(output.path())) == Steps{5});
  CHECK(list_checkpoints(output.path()).unfinished.empty());
}

// Word for word: of those up to the saved one all but the newest and the multiples.
Steps expected_outdated(const Steps& steps, std::int64_t saved, std::int64_t keep_last, std::int64_t keep_every) {
  Steps candidates;
  for (const auto step : steps)
    if (step <= saved) candidates.push_back(step);
  Steps gone;
  for (std::size_t k = 0; k < candidates.size(); ++k) {
    const bool is_newest = std::ssize(candidates) - static_cast<std::int64_t>(k) <= keep_last;
    const bool is_multiple = keep_every > 0 && candidates[k] % keep_every == 0;
    if (keep_last > 0 && !is_newest && !is_multiple) gone.push_back(candidates[k]);
  }
  return gone;
}

TEST_CASE("the outdated checkpoints of every set are those beyond the newest and not at a multiple") {
  for (unsigned set = 0; set < 128; ++set) {
    Listing listing;
    Steps steps;
    for (std::int64_t step = 1; step <= 7; ++step) {
      if ((set >> (step - 1) & 1U) == 0) continue;
      steps.push_back(step);
      listing.whole[step] = folder_name(step);
    }
    for (const auto saved : steps)
      for (const std::int64_t keep_last : {0, 1, 2, 5})
        for (const std::int64_t keep_every : {0, 1, 3}) {
          const auto gone = outdated(listing, saved, keep_last, keep_every);
          CAPTURE(steps, saved, keep_last, keep_every);
          CHECK(gone == expected_outdated(steps, saved, keep_last, keep_every));
          CHECK(std::ranges::find(gone, saved) == gone.end());
        }
  }
}

}  // namespace
}  // namespace tessera::checkpoint

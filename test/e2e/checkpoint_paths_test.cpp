// If this failed, checkpoints in an output folder with an unusual name would be lost, or a damaged checkpoint would be
// loaded, or be refused without a reason.
#include <filesystem>
#include <fstream>

#include "base/file.h"
#include "checkpoint/sealed_json.h"
#include "resumed_run.h"
#include "support/catch.h"
#include "support/command.h"

namespace tessera::test {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::ContainsSubstring;

// Trains two steps into `output` as it is written there, goes on to the fourth, and loads from it.
void check_place(const SmallRun& run, const std::string& output, const fs::path& real) {
  INFO(output);
  const auto words = joined(into(output), every_step);
  train_to_the_end(run, joined(words, {"--train.max_steps", "2"}));
  const auto resumed = train_to_the_end(run, joined(joined(words, go_on), {"--train.max_steps", "4"}));
  CHECK_THAT(resumed.err, ContainsSubstring("after step 2"));
  CHECK(checkpoints_in(real) == std::set<std::string>{"step_000001", "step_000002", "step_000003", "step_000004"});
  CHECK(column(read_metrics(real / "metrics.jsonl"), "loss").size() == 4);
  CHECK_FALSE(fs::exists(real / ".lock"));
  const auto elsewhere = joined(into(run.folder() / "elsewhere"), {"--train.max_steps", "5"});
  CHECK_THAT(train_to_the_end(run, joined(from(output), elsewhere)).err, ContainsSubstring("after step 4"));
  fs::remove_all(run.folder() / "elsewhere");
}

TEST_CASE(
    "output folders that are symlinked, relative, deep, with spaces, quotes or slashes at the end hold their "
    "checkpoints") {
  const SmallRun run;
  const auto& folder = run.folder();
  const auto before = fs::current_path();
  fs::current_path(folder.path());
  check_place(run, "relative", folder / "relative");
  check_place(run, "./a/../deep/er", folder / "deep/er");
  check_place(run, "with a space/and 'quotes' ü", folder / "with a space/and 'quotes' ü");
  check_place(run, folder / "slash/", folder / "slash");
  check_place(run, folder / "slashes//", folder / "slashes");
  fs::create_directory(folder / "real");
  fs::create_directory_symlink(folder / "real", folder / "link");
  check_place(run, folder / "link", folder / "real");
  fs::remove_all(folder / "real");
  fs::create_directory(folder / "real");
  check_place(run, "link/", folder / "real");
  CHECK(fs::is_symlink(folder / "link"));
  fs::create_directory(folder / "inside");
  fs::current_path(folder / "inside");
  check_place(run, ".", folder / "inside");
  fs::current_path(before);
}

TEST_CASE("a checkpoint is found through links and slashes") {
  const SmallRun run;
  train_to_the_end(run, joined(every_step, {"--train.max_steps", "2"}));
  const auto& folder = run.folder();
  fs::create_directory_symlink(checkpoint_of(run.output(), 1), folder / "first");
  fs::create_directory_symlink(run.output(), folder / "all");
  const auto elsewhere = into(folder / "elsewhere");
  const auto loads = [&](const fs::path& path, const std::string& step) {
    INFO(path.string());
    CHECK_THAT(train_to_the_end(run, joined(from(path), elsewhere)).err, ContainsSubstring("after step " + step));
    fs::remove_all(folder / "elsewhere");
  };
  loads(folder / "first", "1");
  loads(folder / "first/", "1");
  loads(folder / "all", "2");
  loads(folder / "all/", "2");
  loads(folder / "all/step_000001//", "1");
}

void cut(const fs::path& file, std::uintmax_t bytes) { fs::resize_file(file, fs::file_size(file) - bytes); }

void flip(const fs::path& file, std::uintmax_t at) {
  auto content = base::read_file(file);
  content.at(at) = static_cast<char>(content[at] ^ 4);
  std::ofstream(file, std::ios::binary | std::ios::trunc) << content;
}

// The sealed file with one text in place of another, and a seal that fits.
void reseal(const fs::path& file, const std::string& from, const std::string& to) {
  auto text = base::read_file(file);
  const auto at = text.find(from);
  REQUIRE(at != std::string::npos);
  text.replace(at, from.size(), to);
  const auto members = text.substr(2, text.rfind(",\n\"hash\"") - 2);
  std::ofstream(file, std::ios::binary | std::ios::trunc) << checkpoint::seal(members);
}

TEST_CASE("a damaged checkpoint is refused by one message that names the file, with exit code 2") {
  struct Damage {
    std::string what;
    std::function<void(const fs::path& output, const fs::path& checkpoint)> make;
    Words messages;
  };
  const std::string shard = "shard_00000.safetensors";
  const std::vector<Damage> damages{
      {"latest is cut",
       [](const auto& output, const auto&) { cut(output / "latest", 3); },
       {"output/latest does not end with its hash", "step_000001, step_000002", "train.checkpoint.load_path"}},
      {"latest is empty",
       [](const auto& output, const auto&) { fs::resize_file(output / "latest", 0); },
       {"output/latest does not end with its hash"}},
      {"a bit of latest",
       [](const auto& output, const auto&) { flip(output / "latest", 12); },
       {"output/latest is damaged"}},
      {"latest is a folder",
       [](const auto& output, const auto&) {
         fs::remove(output / "latest");
         fs::create_directory(output / "latest");
       },
       {"output/latest: it is a folder"}},
      {"latest names another step",
       [](const auto& output, const auto&) { reseal(output / "latest", "\"step\": 2", "\"step\": 77"); },
       {"output/latest names step_000077, which is not there", "step_000001, step_000002"}},
      {"latest without a step",
       [](const auto& output, const auto&) { reseal(output / "latest", "\"step\": 2", "\"stop\": 2"); },
       {"output/latest: no \"step\""}},
      {"a newer version",
       [](const auto&, const auto& c) { reseal(c / "manifest.json", "\"version\": 1", "\"version\": 2"); },
       {"manifest.json: format version 2; this program reads versions up to 1: use a newer Tessera"}},
      {"a bit of the manifest",
       [](const auto&, const auto& c) { flip(c / "manifest.json", 300); },
       {"step_000002/manifest.json is damaged"}},
      {"the manifest is cut",
       [](const auto&, const auto& c) { cut(c / "manifest.json", 100); },
       {"step_000002/manifest.json does not end with its hash"}},
      {"a shard is missing",
       [&](const auto&, const auto& c) { fs::remove(c / shard); },
       {"step_000002/" + shard + " is part of the checkpoint and cannot be read: No such file or directory"}},
      {"a shard is cut",
       [&](const auto&, const auto& c) { cut(c / shard, 1); },
       {"step_000002/" + shard + " has ", "it is cut or damaged"}},
      {"a bit of a shard's header", [&](const auto&, const auto& c) { flip(c / shard, 40); }, {"step_000002/" + shard}},
      {"a bit of a shard's data",
       [&](const auto&, const auto& c) { flip(c / shard, fs::file_size(c / shard) - 9); },
       {"step_000002/" + shard + ": tensor ", " of the file, does not have the hash"}},
  };
  const SmallRun run;
  train_to_the_end(run, joined(every_step, {"--train.max_steps", "2"}));
  fs::copy(run.output(), run.folder() / "good", fs::copy_options::recursive);
  for (const auto& damage : damages) {
    INFO(damage.what);
    fs::remove_all(run.output());
    fs::copy(run.folder() / "good", run.output(), fs::copy_options::recursive);
    damage.make(run.output(), checkpoint_of(run.output(), 2));
    const auto refused = train(run, go_on);
    INFO(refused.err);
    CHECK(refused.code == 2);
    CHECK(count_of("] error ", refused.err) == 1);
    for (const auto& message : damage.messages) CHECK_THAT(refused.err, ContainsSubstring(message));
    CHECK(base::read_file(run.output() / "metrics.jsonl") == base::read_file(run.folder() / "good/metrics.jsonl"));
    // The one before it is as good as ever.
    CHECK_THAT(train_to_the_end(run, joined(from(checkpoint_of(run.output(), 1)), into(run.folder() / "other"))).err,
               ContainsSubstring("after step 1"));
    fs::remove_all(run.folder() / "other");
  }
}

TEST_CASE("damage that rank 1 alone reads is told once, by its rank") {
  const SmallRun run;
  train_to_the_end(run, {}, 2);
  const auto shard = checkpoint_of(run.output(), 5) / "shard_00001.safetensors";
  flip(shard, fs::file_size(shard) - 9);
  const auto refused = train(run, joined(go_on, {"--train.max_steps", "6"}), 2);
  INFO(refused.err);
  CHECK(refused.code == 2);
  CHECK(count_of("] error ", refused.err) == 1);
  CHECK_THAT(refused.err, ContainsSubstring("rank 1: ") && ContainsSubstring(shard.string() + ": tensor "));
}

}  // namespace
}  // namespace tessera::test

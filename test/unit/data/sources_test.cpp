// If these fail, files that the user names are not read, read twice, or read in another order on another machine.
#include "data/sources.h"

#include "support/catch.h"
#include "support/error_of.h"
#include "support/temp_folder.h"

using namespace tessera;
using Catch::Matchers::ContainsSubstring;
using config::DataFormat;

namespace {

// Names relative to the folder, with the first letter of the format.
std::string found(const test::TempFolder& folder, const std::vector<std::string>& named,
                  DataFormat format = DataFormat::automatic) {
  std::string text;
  for (const auto& source : data::find_sources(named, format, "data.train_path")) {
    const char letter = source.format == DataFormat::text ? 't' : source.format == DataFormat::jsonl ? 'j' : 'm';
    text += (text.empty() ? "" : " ") + std::filesystem::relative(source.path, folder.path()).string() + ":" + letter;
  }
  return text;
}

std::string error_for(const std::vector<std::string>& named) {
  return test::error_of([&] { (void)data::find_sources(named, DataFormat::automatic, "data.train_path"); });
}

}  // namespace

TEST_CASE("a folder gives all its files in the order of their paths, formats by extension") {
  const test::TempFolder folder;
  for (const char* name : {"b.txt", "a/z.jsonl", "a/y", "c.bin", "c.idx", ".git/config", "a/.hidden", "d.json"})
    folder.write(name, "x");
  CHECK(found(folder, {folder.path()}) == "a/y:t a/z.jsonl:j b.txt:t c.idx:m d.json:j");
}

TEST_CASE("patterns, commas and lists are expanded in the order given") {
  const test::TempFolder folder;
  for (const char* name : {"1.txt", "2.txt", "10.txt", "sub/x.txt"}) folder.write(name, "x");
  CHECK(found(folder, {folder / "2.txt", folder / "1*.txt"}) == "2.txt:t 1.txt:t 10.txt:t");
  CHECK(found(folder, {(folder / "2.txt").string() + "," + (folder / "1.txt").string() + ","}) == "2.txt:t 1.txt:t");
  CHECK(found(folder, {folder / "s*"}) == "sub/x.txt:t");
  folder.write("a,b.txt", "x");
  CHECK(found(folder, {folder / "a,b.txt"}) == "a,b.txt:t");
}

TEST_CASE("a file named twice is used once") {
  const test::TempFolder folder;
  folder.write("a.txt", "x");
  CHECK(found(folder, {folder / "a.txt", folder.path(), folder / "./a.txt"}) == "a.txt:t");
}

TEST_CASE("a megatron pair goes by either file or their stem") {
  const test::TempFolder folder;
  folder.write("c.bin", "x");
  folder.write("c.idx", "x");
  for (const char* name : {"c.bin", "c.idx", "c", "c*"}) CHECK(found(folder, {folder / name}) == "c.idx:m");
}

TEST_CASE("a format given by the user beats the extension") {
  const test::TempFolder folder;
  folder.write("a.txt", "x");
  folder.write("b.jsonl", "x");
  CHECK(found(folder, {folder.path()}, DataFormat::text) == "a.txt:t b.jsonl:t");
  CHECK(found(folder, {folder.path()}, DataFormat::jsonl) == "a.txt:j b.jsonl:j");
}

TEST_CASE("names that match nothing are all reported") {
  const test::TempFolder folder;
  folder.write("c.bin", "x");
  folder.write("d.idx", "x");
  std::filesystem::create_directory(folder / "empty");
  const std::string error =
      error_for({folder / "no.txt", folder / "*.none", folder / "empty", folder / "c.bin", folder / "d.idx"});
  CHECK_THAT(error, ContainsSubstring("5 problems"));
  CHECK_THAT(error, ContainsSubstring("no.txt") && ContainsSubstring("*.none"));
  CHECK_THAT(error, ContainsSubstring("empty has no files"));
  CHECK_THAT(error, ContainsSubstring("c.idx is not there") && ContainsSubstring("d.bin is not there"));
  CHECK_THAT(error_for({}), ContainsSubstring("data.train_path names no file"));
  CHECK_THAT(error_for({","}), ContainsSubstring("names no file"));
}

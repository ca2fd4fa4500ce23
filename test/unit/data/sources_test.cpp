// If this failed, files that the user names would be left out, read twice, or read in another order on another machine.
#include "data/sources.h"

#include <sys/stat.h>

#include "support/catch.h"
#include "support/error_of.h"
#include "support/log_of.h"
#include "support/temp_folder.h"

using namespace tessera;
using Catch::Matchers::ContainsSubstring;
using config::DataFormat;

namespace {

// Names relative to the folder, with the first letter of the format.
std::string found(const test::TempFolder& folder, const std::vector<std::string>& named,
                  DataFormat format = DataFormat::automatic, const std::vector<std::string>& own = {}) {
  std::string text;
  for (const auto& source : data::find_sources(named, format, "data.train_path", own)) {
    const char letter = source.format == DataFormat::text ? 't' : source.format == DataFormat::jsonl ? 'j' : 'm';
    text += (text.empty() ? "" : " ") +
            std::filesystem::path(source.path).lexically_normal().lexically_relative(folder.path()).string() + ":" +
            letter;
  }
  return text;
}

std::string error_for(const std::vector<std::string>& named, const std::vector<std::string>& own = {}) {
  return test::error_of([&] { (void)data::find_sources(named, DataFormat::automatic, "data.train_path", own); });
}

}  // namespace

TEST_CASE("a folder gives all its files in the order of their paths, formats by extension") {
  const test::TempFolder folder;
  for (const char* name : {"b.txt", "a/z.jsonl", "a/y", "c.bin", "c.idx", ".git/config", "a/.hidden", "d.json"})
    folder.write(name, "x");
  CHECK(found(folder, {folder.path()}) == "a/y:t a/z.jsonl:j b.txt:t c.idx:m d.json:j");
}

TEST_CASE("patterns and lists are expanded in the order given, and nothing is split at a comma") {
  const test::TempFolder folder;
  for (const char* name : {"1.txt", "2.txt", "10.txt", "sub/x.txt", "a,b.txt", "[1].txt"}) folder.write(name, "x");
  CHECK(found(folder, {folder / "2.txt", folder / "1*.txt"}) == "2.txt:t 1.txt:t 10.txt:t");
  CHECK(found(folder, {folder / "s*"}) == "sub/x.txt:t");
  CHECK(found(folder, {folder / "a,b.txt"}) == "a,b.txt:t");
  CHECK(found(folder, {folder / "a,*"}) == "a,b.txt:t");
  CHECK(found(folder, {folder / "[1].txt"}) == "[1].txt:t");  // as it stands, not as a pattern
  CHECK_THAT(error_for({(folder / "2.txt").string() + "," + (folder / "1.txt").string()}),
             ContainsSubstring("in a list each path is an item of its own"));
}

TEST_CASE("a file is used once, however often and by whatever spelling or link it is met, and that is said") {
  const test::TempFolder folder;
  folder.write("a.txt", "x");
  folder.write("sub/c.bin", "x");
  folder.write("sub/c.idx", "x");
  std::filesystem::create_symlink("a.txt", folder / "b.txt");
  std::filesystem::create_hard_link(folder / "a.txt", folder / "d.txt");
  std::filesystem::create_directory_symlink("sub", folder / "z");
  const auto relative = std::filesystem::relative(folder / "a.txt").string();
  const auto all = test::log_of([&] {
    CHECK(found(folder, {folder / "a.txt", relative, folder.path(), folder / "./a.txt", folder / "sub/c.bin"}) ==
          "a.txt:t sub/c.idx:m");
  });
  // a.txt and its two other names in the folder, the other spellings, the folder z, and c.bin.
  CHECK_THAT(all, ContainsSubstring("7 files or folders are met more than once (the first is " + relative + ")"));
  CHECK(test::log_of([&] { CHECK(found(folder, {folder / "sub"}) == "sub/c.idx:m"); }).empty());
}

TEST_CASE("links to files and folders are followed; one that leads nowhere or in a circle is named") {
  const test::TempFolder folder, elsewhere;
  elsewhere.write("x.txt", "x");
  elsewhere.write("deep/y.txt", "y");
  folder.write("a.txt", "a");
  std::filesystem::create_directory_symlink(elsewhere.path(), folder / "m");
  CHECK(found(folder, {folder.path()}) == "a.txt:t m/deep/y.txt:t m/x.txt:t");
  std::filesystem::create_symlink("none", folder / "m/deep/z.txt");
  CHECK_THAT(error_for({folder.path()}),
             ContainsSubstring("m/deep/z.txt is a link to none, which is not there; mend or remove it"));
  CHECK_THAT(error_for({folder / "m/deep/z.txt"}), ContainsSubstring("is a link to none, which is not there"));
  std::filesystem::remove(folder / "m/deep/z.txt");
  std::filesystem::create_directory_symlink(elsewhere.path(), folder / "m/deep/up");
  CHECK_THAT(error_for({folder.path()}), ContainsSubstring("m/deep/up leads back to " + (folder / "m").string()) &&
                                             ContainsSubstring("a folder that holds it"));
  std::filesystem::remove(folder / "m/deep/up");
  std::filesystem::create_symlink("self", folder / "self");
  CHECK_THAT(error_for({folder.path()}), ContainsSubstring("self is a link that leads back to itself"));
  std::filesystem::remove(folder / "self");
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  CHECK_THAT(error_for({folder.path()}), ContainsSubstring("pipe is a pipe, socket or device"));
}

TEST_CASE("binary files are not taken for text: each kind is named with its way out, all at once") {
  using namespace std::string_literals;
  const test::TempFolder folder;
  const std::vector<std::pair<std::string, std::string>> kinds{
      {"\x1F\x8B\x08\0"s, "gunzip"},
      {"\x28\xB5\x2F\xFD\x24"s, "zstd -d"},
      {"\xFD"
       "7zXZ\0"s,
       "xz -d"},
      {"BZh91AY&SY\x01"s, "bunzip2"},
      {"BZh9\x17\x72\x45\x38\x50\x90"s, "bunzip2"},
      {"PAR1\x15\x04"s, "JSONL"},
      {"ARROW1\0\0"s, "JSONL"},
      {"\xFF\xFF\xFF\xFF\x10\0\0\0"s, "JSONL"},
      {"\x0C\0\0\0\0\0\0\0{\"a\": 1}    "s, "safetensors"},
      {"PK\x03\x04"s, "unzip"},
      {"\x93NUMPY\x01\0"s, "input_ids"},
      {"\x7F"
       "ELF\x02"s,
       "ELF"},
      {"\x89PNG\r\n\x1A\n"s, "PNG"},
      {"%PDF-1.7\n"s, "PDF"},
      {"\xFE\xFF\0t\0e"s, "zero bytes"},
  };
  int number = 0;
  for (const auto& [content, way_out] : kinds) {
    CAPTURE(way_out);
    const auto path = folder.write("kinds/" + std::to_string(number++), content);
    CHECK_THAT(error_for({path}), ContainsSubstring(path.string() + " is ") && ContainsSubstring(way_out) &&
                                      ContainsSubstring("insist with --data.format text"));
    const auto as_lines = folder.write("d.jsonl", content);
    if (way_out != "zero bytes") CHECK_THAT(error_for({as_lines}), ContainsSubstring(way_out));
    CHECK(data::find_sources(std::vector{path.string()}, DataFormat::text, "data.train_path").size() == 1);
  }
  CHECK_THAT(error_for({folder / "kinds"}), ContainsSubstring("problems in data.train_path") &&
                                                ContainsSubstring("gunzip") && ContainsSubstring("zero bytes") &&
                                                ContainsSubstring("(and 1 more files are); unpack it (bunzip2)"));
  // Texts that begin like one of these.
  for (const char* text :
       {"BZh9 is what bzip2 writes", "PAR1 is what parquet begins with", "", "PK", "{\"a\": 1}", "7z"})
    CHECK(found(folder, {folder.write("a.txt", text)}) == "a.txt:t");
}

TEST_CASE("endings count in any case, and a .json file of an unclear format is refused with the formats to give") {
  const test::TempFolder folder;
  folder.write("a.JSONL", "{}");
  folder.write("b.Ndjson", "{}");
  folder.write("c.JSON", "{}");
  CHECK(found(folder, {folder.path()}) == "a.JSONL:j b.Ndjson:j c.JSON:j");
  folder.write("d.json", "\xEF\xBB\xBF [\n{\"text\": \"a\"}\n]");
  CHECK_THAT(error_for({folder.path()}),
             ContainsSubstring("d.json is a JSON array") && ContainsSubstring("--data.format"));
  CHECK_THAT(error_for({folder.write("e.BIN", "x")}), ContainsSubstring("in small letters"));
}

TEST_CASE("files that runs write into a data folder are left out and logged; named outright they are refused") {
  const test::TempFolder folder;
  for (const char* name : {"a.txt", "run/settings.resolved.json", "run/metrics.jsonl", "run/hf/config.json",
                           "run/step_000004/manifest.json", "now/x.txt", "trace.json", "metrics.jsonl"})
    folder.write(name, "x");
  const std::vector<std::string> own{folder / "now", folder / "trace.json", folder / "not there yet"};
  for (const auto& named : {folder.path().string(), (folder / "*").string()}) {
    const auto log =
        test::log_of([&] { CHECK(found(folder, {named}, DataFormat::automatic, own) == "a.txt:t metrics.jsonl:j"); });
    CHECK_THAT(log, ContainsSubstring("data.train_path: left out, as written by a run: " + (folder / "now").string() +
                                      " and 2 more"));
  }
  for (const char* name : {"run", "now", "trace.json"})
    CHECK_THAT(error_for({folder / name}, own),
               ContainsSubstring(std::string(name) + " is written by a run") && ContainsSubstring("output_dir"));
  CHECK(found(folder, {folder / "run/hf"}) == "run/hf/config.json:j");
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
}

// If this failed, a file that is cut while it is read would kill a run without a message, or a SIGBUS of another cause
// would be blamed on a file.
#include "base/watched_bytes.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <filesystem>
#include <numeric>
#include <thread>
#include <vector>

#include "base/file.h"
#include "support/catch.h"
#include "support/child_process.h"
#include "support/error_of.h"
#include "support/temp_folder.h"

namespace tessera::base {
namespace {

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::Matches;

constexpr std::size_t size = 20'000;  // some pages

// Reads every byte, so that no compiler leaves it out.
int sum(std::span<const std::byte> bytes) {
  return std::accumulate(bytes.begin(), bytes.end(), 0,
                         [](int a, std::byte b) { return a + std::to_integer<int>(b); }) &
         1;
}

int read_after_cut(const Path& path, const std::function<MappedFile(MappedFile)>& pass_on) {
  const MappedFile file = pass_on(MappedFile(path));
  std::filesystem::resize_file(path, 5000);
  return sum(file.bytes());
}

TEST_CASE("reading bytes that were cut off a mapped file ends the process with code 4 and one line that names it") {
  const test::TempFolder folder;
  const auto path = folder.write("data.bin", std::string(size, 'a'));
  const auto other = folder.write("other.bin", std::string(size, 'b'));
  const MappedFile beside(other);
  const auto end = test::run_in_child([&] { return read_after_cut(path, [](MappedFile file) { return file; }); });
  CHECK(end.code == 4);
  CHECK_THAT(end.err, Matches("\\[[0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{3}\\] error " + path.string() +
                              " became shorter while it was in use: it had 20000 bytes, now it has 5000; [^\n]*\n"));
  CHECK(sum(beside.bytes()) == 0);
}

TEST_CASE("a mapped file that was moved is watched, wherever it is; one that is gone is not") {
  const test::TempFolder folder;
  for (const auto& pass_on : std::vector<std::function<MappedFile(MappedFile)>>{
           [](MappedFile file) { return MappedFile(std::move(file)); },
           [&](MappedFile file) {
             MappedFile to(folder.write("second", std::string(size, 'c')));
             to = std::move(file);
             return to;
           }}) {
    const auto path = folder.write("first", std::string(size, 'a'));
    const auto end = test::run_in_child([&] { return read_after_cut(path, pass_on); });
    CHECK(end.code == 4);
    CHECK_THAT(end.err, ContainsSubstring("/first became shorter"));
  }
}

TEST_CASE("a file that was cut and replaced is named without sizes that are another's") {
  const test::TempFolder folder;
  const auto path = folder.write("data.bin", std::string(size, 'a'));
  const auto end = test::run_in_child([&] {
    const MappedFile file(path);
    std::filesystem::resize_file(path, 0);
    std::filesystem::rename(folder.write("new", std::string(2 * size, 'b')), path);
    return sum(file.bytes());
  });
  CHECK(end.code == 4);
  CHECK_THAT(end.err, ContainsSubstring("error cannot read " + path.string()) && ContainsSubstring("replaced"));
}

TEST_CASE("a SIGBUS that no mapped file raised ends the process as ever") {
  const test::TempFolder folder;
  const auto path = folder.write("data.bin", std::string(size, 'a'));
  const auto foreign = test::run_in_child([&] {
    const MappedFile file(path);
    const int memory = ::memfd_create("foreign", 0);
    const auto* bytes = static_cast<const std::byte*>(::mmap(nullptr, size, PROT_READ, MAP_SHARED, memory, 0));
    return sum({bytes, size});
  });
  const auto sent = test::run_in_child([&] {
    const MappedFile file(path);
    ::raise(SIGBUS);
    return 0;
  });
  for (const auto& end : {foreign, sent}) {
    CAPTURE(end.err);
    CHECK(end.err.find(path.string()) == std::string::npos);
#ifdef __SANITIZE_ADDRESS__  // it has a handler of its own, with a report and a code
    CHECK(end.code == 1);
#else
    CHECK(end.code == 128 + SIGBUS);
    CHECK(end.err.empty());
#endif
  }
}

TEST_CASE("of the ranks of a job one speaks, with its name") {
  const test::TempFolder folder;
  for (const bool spoken : {false, true}) {
    const auto path = folder.write("data.bin", std::string(size, 'a'));
    const auto end = test::run_in_child([&] {
      std::atomic<bool> has_spoken{spoken};
      set_speaker("rank 2 on node1: ", &has_spoken);
      return read_after_cut(path, [](MappedFile file) { return file; });
    });
    CHECK(end.code == 4);
    CHECK(end.err.empty() == spoken);
    if (!spoken) CHECK_THAT(end.err, ContainsSubstring("error rank 2 on node1: " + path.string()));
  }
}

TEST_CASE("threads map and drop files while another's file is cut: the right one is named") {
  const test::TempFolder folder;
  const auto path = folder.write("cut.bin", std::string(size, 'a'));
  for (int i = 0; i < 4; ++i) folder.write("other" + std::to_string(i), std::string(size, 'b'));
  const auto end = test::run_in_child([&] {
    std::vector<std::thread> threads;
    std::atomic<int> sums{0};
    for (int i = 0; i < 4; ++i)
      threads.emplace_back([&, i] {
        while (true) sums += sum(MappedFile(folder / ("other" + std::to_string(i))).bytes());
      });
    for (int i = 0; i < 1000; ++i) sums += sum(MappedFile(path).bytes());
    return read_after_cut(path, [](MappedFile file) { return file; });
  });
  CHECK(end.code == 4);
  CHECK_THAT(end.err, ContainsSubstring("/cut.bin became shorter"));
}

TEST_CASE("a write beyond the limit on the size of files is an error that can be told") {
  const test::TempFolder folder;
  const auto end = test::run_in_child([&] {
    const rlimit limit{1000, 1000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const auto message = test::error_of([&] { write_synced(folder / "long", std::string(size, 'a')); });
    return message == "cannot write " + (folder / "long").string() + ": File too large" ? 0 : 1;
  });
  CHECK(end.code == 0);
}

}  // namespace
}  // namespace tessera::base

// If this failed, data that have changed since a checkpoint would be taken for the same, or the same data for other
// data.
#include "data/fingerprint.h"

#include <atomic>
#include <chrono>
#include <fstream>
#include <thread>

#include "base/clock.h"
#include "base/file.h"
#include "corpus_files.h"
#include "data/content_hash.h"
#include "support/catch.h"
#include "support/log_of.h"

using namespace tessera;
using Catch::Matchers::ContainsSubstring;

namespace {

constexpr std::uint64_t mib = 1 << 20;

std::uint64_t fingerprint_of(const std::vector<std::string>& paths, std::uint64_t whole_bytes = 256 * mib) {
  data::Fingerprint fingerprint(whole_bytes);
  for (const auto& path : paths) fingerprint.add(path);
  return fingerprint.value();
}

// Another value at that byte.
void change(const std::string& path, std::int64_t at) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(at);
  const auto old = static_cast<char>(file.get());
  file.seekp(at);
  file.put(static_cast<char>(old ^ 1));
}

std::uint64_t content_of(const data::Corpus& corpus) {
  const data::ContentHash content(corpus);
  content.wait();
  REQUIRE(content.value().has_value());
  return *content.value();
}

}  // namespace

TEST_CASE("a byte changed anywhere is seen, a name is not, the order and the borders of files are") {
  const test::TempFolder folder;
  const auto a = folder.write("a", std::string(3 * mib, 'a')).string(), b = folder.write("b", "bb").string(),
             c = folder.write("c", "cc").string();
  const auto before = fingerprint_of({a, b, c});
  CHECK(fingerprint_of({a, b, c}) == before);
  CHECK(fingerprint_of({a, c, b}) != before);
  CHECK(fingerprint_of({folder.write("other", std::string(3 * mib, 'a')).string(), b, c}) == before);
  CHECK(fingerprint_of({a, folder.write("b2", "bbc").string(), folder.write("c2", "c").string()}) != before);
  for (const std::int64_t at : {std::int64_t{0}, std::int64_t{1234567}, std::int64_t{3 * mib - 1}}) {
    change(a, at);
    CHECK(fingerprint_of({a, b, c}) != before);
    change(a, at);
  }
  CHECK(fingerprint_of({a, b, c}) == before);
}

TEST_CASE("beyond the bound the size, the first, the last and spread blocks of a file count, and small files whole") {
  const test::TempFolder folder;
  const auto large = folder.write("a", std::string(3 * mib, 'a')).string();
  const auto small = folder.write("b", std::string(16384, 'b')).string();
  data::Fingerprint whole(4 * mib), sampled(mib);
  for (const auto& path : {large, small}) {
    whole.add(path);
    sampled.add(path);
  }
  CHECK(whole.covers_all());
  CHECK_FALSE(sampled.covers_all());
  const auto before = sampled.value();
  // Four blocks: at 0, a third, two thirds, the end.
  const std::int64_t third = (3 * mib - 4096) / 3;
  const auto after_change = [&](const std::string& path, std::int64_t at) {
    change(path, at);
    const auto value = fingerprint_of({large, small}, mib);
    change(path, at);
    return value;
  };
  for (const std::int64_t at :
       {std::int64_t{0}, std::int64_t{4095}, third, 2 * third + 4095, std::int64_t{3 * mib - 1}}) {
    CAPTURE(at);
    CHECK(after_change(large, at) != before);
  }
  CHECK(after_change(large, 4096) == before);  // what a ContentHash is for
  for (const std::int64_t at : {0, 9999, 16383}) CHECK(after_change(small, at) != before);
  folder.write("a", std::string(3 * mib + 1, 'a'));
  CHECK(fingerprint_of({large, small}, mib) != before);
}

TEST_CASE("the fingerprint of a corpus covers lines and indexes whole; the hash of its content covers all bytes") {
  const test::TempFolder folder;
  const auto lines = folder.write("1.jsonl", test::jsonl(test::numbered({3000, 20000}))).string();
  test::write_pair<std::int32_t>(folder, "2", test::numbered({20000, 5000}), 4);
  auto options = test::corpus_options(folder.path());
  options.fingerprint_bytes = 0;
  const auto both = [&] {
    const data::Corpus corpus(options);
    CHECK_FALSE(corpus.fingerprint().covers_all());
    return std::pair{corpus.fingerprint().value(), content_of(corpus)};
  };
  const auto before = both();
  CHECK(both() == before);
  change((folder / "2.bin").string(), 50000);  // in no block
  const auto token_changed = both();
  CHECK(token_changed.first == before.first);
  CHECK(token_changed.second != before.second);
  change((folder / "2.bin").string(), 50000);
  auto index = test::index_of({20000, 5000}, 4, 4);
  index.document_indices = {0, 1, 2, 2};
  index.document_entries = 4;
  folder.write("2.idx", index.bytes());
  CHECK(both().first != before.first);
  folder.write("2.idx", test::index_of({20000, 5000}, 4, 4).bytes());
  auto text = base::read_file(lines);
  text.replace(text.find("12345"), 5, "12346");
  folder.write("1.jsonl", text);
  CHECK(both().first != before.first);
  options.fingerprint_bytes = mib;
  CHECK(data::Corpus(options).fingerprint().covers_all());
}

TEST_CASE("a wait for the hash of the content ends early if the thread is slow, and at its limit if it stops") {
  const test::TempFolder folder;
  folder.write("a.txt", std::string(1000, 'a'));
  const auto path_b = folder.write("b.txt", std::string(10, 'b'));
  const data::Corpus corpus(test::corpus_options(folder.path()));
  for (const std::uint64_t size : {std::uint64_t{10}, mib * mib}) {  // at the speed so far the second takes days
    INFO(size << " bytes left");
    std::filesystem::resize_file(path_b, size);
    std::atomic<int> parts = 0;
    std::atomic<bool> is_released = false;
    const data::ContentHash content(corpus, [&] {
      if (++parts == 2) is_released.wait(false);
    });
    while (parts < 2) std::this_thread::yield();
    const auto seconds_of_wait = [&](double limit) {
      const double begin = base::seconds_now();
      content.wait_if_within(limit);
      return base::seconds_now() - begin;
    };
    if (size == 10) {
      CHECK(seconds_of_wait(0.2) >= 0.2);
      CHECK_FALSE(content.value().has_value());
      std::thread releases([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        is_released = true;
        is_released.notify_all();
      });
      CHECK(seconds_of_wait(60) < 30);
      releases.join();
      CHECK(content.value().has_value());
    } else {
      CHECK(seconds_of_wait(60) < 30);
      CHECK_FALSE(content.value().has_value());
      is_released = true;
      is_released.notify_all();
    }
  }
}

TEST_CASE("a file that goes while it is hashed in the background is told") {
  const test::TempFolder folder;
  const auto path = folder.write("a.txt", "abc");
  const data::Corpus corpus(test::corpus_options(path));
  std::filesystem::remove(path);
  const auto log = test::log_of([&] {
    const data::ContentHash content(corpus);
    content.wait();
    CHECK_FALSE(content.value().has_value());
  });
  CHECK_THAT(log, ContainsSubstring("cannot be compared") && ContainsSubstring("a.txt"));
}

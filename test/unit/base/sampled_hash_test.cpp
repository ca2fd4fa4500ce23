// If this failed, two different files could have the same hash, or a large file would be read whole.
#include "base/sampled_hash.h"

#include <string>

#include "support/catch.h"
#include "support/error_of.h"
#include "support/temp_folder.h"

namespace tessera::base {
namespace {

constexpr std::size_t block = 4096;

TEST_CASE("every byte of a short file counts, and its size") {
  const test::TempFolder folder;
  const std::string content(3 * block + 17, 'a');
  const auto hash = sampled_hash(folder.write("a", content), content.size());
  CHECK(hash == sampled_hash(folder.write("same", content), content.size()));
  for (const auto at : {std::size_t{0}, block - 1, block, 2 * block + 5, content.size() - 1}) {
    auto other = content;
    other[at] = 'b';
    CHECK(hash != sampled_hash(folder.write("b", other), content.size()));
  }
  CHECK(hash != sampled_hash(folder.write("longer", content + 'a'), content.size() + 1));
  CHECK(sampled_hash(folder.write("empty", ""), 1) == sampled_hash(folder.write("empty too", ""), 1 << 20));
}

TEST_CASE("of a long file the first and the last block count, blocks between them, and the size") {
  const test::TempFolder folder;
  const std::string content(100 * block, 'a');
  const std::uint64_t most = 5 * block;  // blocks 0, 24.75, 49.5, 74.25, 99
  const auto hash = sampled_hash(folder.write("a", content), most);
  const auto changed_at = [&](std::size_t at) {
    auto other = content;
    other[at] = 'b';
    return sampled_hash(folder.write("b", other), most);
  };
  for (const auto at : {std::size_t{0}, 25 * block, 50 * block, 75 * block, 100 * block - 1})
    CHECK(changed_at(at) != hash);
  CHECK(changed_at(10 * block) == hash);
  CHECK(sampled_hash(folder.write("longer", content + std::string(block, 'a')), most) != hash);
}

TEST_CASE("a file that cannot be read is named") {
  const test::TempFolder folder;
  CHECK(test::error_of([&] { (void)sampled_hash(folder / "none", 1); }).find((folder / "none").string()) !=
        std::string::npos);
}

}  // namespace
}  // namespace tessera::base

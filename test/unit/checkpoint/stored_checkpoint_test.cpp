// If this failed, a run would start from a damaged checkpoint, or a rank would get another rank's part of a parameter.
#include "checkpoint/stored_checkpoint.h"

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <set>

#include "base/hash.h"
#include "checkpoint/reader.h"
#include "support/catch.h"
#include "support/error_of.h"
#include "unit/checkpoint/saved_folder.h"

namespace tessera::checkpoint {
namespace {

using Catch::Matchers::Contains;

struct Saved {
  Saved() { write_saved(folder.path(), saved_manifest()); }
  [[nodiscard]] std::filesystem::path shard(std::size_t file) const {
    return folder / ("shard_0000" + std::to_string(file) + ".safetensors");
  }
  // What reading the checkpoint and verifying the share says.
  [[nodiscard]] std::string verdict(std::int64_t part = 0, std::int64_t parts = 1) const {
    return test::error_of([&] { StoredCheckpoint(folder.path()).verify(part, parts); });
  }
  test::TempFolder folder;
};

constexpr std::uint64_t stored_bytes = 2 * 4 * (15 + 14 + 4);

TEST_CASE("a checkpoint that nobody touched is whole, read in one share or many") {
  const Saved saved;
  for (std::int64_t parts = 1; parts <= 9; ++parts) {
    CAPTURE(parts);
    std::uint64_t sum = 0, most = 0;
    for (std::int64_t part = 0; part < parts; ++part) {
      StoredCheckpoint stored(saved.folder.path());
      const auto read = stored.verify(part, parts);
      sum += read;
      most = std::max(most, read);
    }
    CHECK(sum == stored_bytes);
    // Tensors are read whole: one that begins in the share may reach beyond it.
    constexpr std::uint64_t largest_tensor = 4 * 8;
    CHECK(most <= StoredCheckpoint(saved.folder.path()).bytes() / static_cast<std::uint64_t>(parts) + largest_tensor);
  }
  CHECK_THROWS_AS(StoredCheckpoint(saved.folder.path()).verify(3, 3), std::logic_error);
  CHECK_THROWS_AS(StoredCheckpoint(saved.folder.path()).verify(-1, 3), std::logic_error);
}

TEST_CASE("a flipped bit in any byte of a shard is found: the file is named, in data also the tensor and its bytes") {
  const Saved saved;
  std::set<std::string> named;
  for (std::size_t f = 0; f < 3; ++f) {
    const SafetensorsFile before(saved.shard(f));
    for (std::size_t byte = 0; byte < before.size(); ++byte) {
      const auto bit = 8 * byte + byte % 8;
      flip_bit(saved.shard(f), bit);
      const auto verdict = saved.verdict();
      flip_bit(saved.shard(f), bit);
      CAPTURE(f, byte, verdict);
      CHECK_THAT(verdict, Contains(saved.shard(f).string()));
      const auto header = before.header().size();
      if (byte < header) continue;
      for (const auto& tensor : before.tensors()) {
        if (byte < header + tensor.begin || byte >= header + tensor.end) continue;
        CHECK_THAT(verdict, Contains("tensor " + tensor.name + ", bytes " + std::to_string(header + tensor.begin) +
                                     " to " + std::to_string(header + tensor.end) + " of the file"));
        named.insert(tensor.name);
      }
    }
  }
  CHECK(named == std::set<std::string>{"master/a", "exp_avg/a", "master/b", "exp_avg/b", "master/c", "exp_avg/c"});
  CHECK(saved.verdict() == "no error");
}

TEST_CASE("a flipped bit anywhere in the manifest is found when the checkpoint is opened, and the manifest named") {
  const Saved saved;
  const auto path = saved.folder / manifest_name;
  for (std::size_t bit = 0; bit < 8 * std::filesystem::file_size(path); bit += 3) {
    flip_bit(path, bit);
    CAPTURE(bit);
    CHECK_THAT(test::error_of([&] { const StoredCheckpoint stored(saved.folder.path()); }), Contains(path.string()));
    flip_bit(path, bit);
  }
}

TEST_CASE("of the shares exactly one finds the damage of a tensor, and at least one that of a header") {
  const Saved saved;
  for (std::size_t f = 0; f < 3; ++f) {
    const SafetensorsFile before(saved.shard(f));
    std::vector<std::size_t> places{3, before.header().size() / 2};
    for (const auto& tensor : before.tensors()) places.push_back(before.header().size() + tensor.end - 1);
    for (const auto place : places) {
      flip_bit(saved.shard(f), 8 * place);
      for (std::int64_t parts = 1; parts <= 9; ++parts) {
        std::int64_t finders = 0;
        for (std::int64_t part = 0; part < parts; ++part) finders += saved.verdict(part, parts) != "no error" ? 1 : 0;
        CAPTURE(f, place, parts);
        CHECK(finders >= 1);
        if (place >= before.header().size()) CHECK(finders == 1);
      }
      flip_bit(saved.shard(f), 8 * place);
    }
  }
}

TEST_CASE("a shard that is missing, cut at any byte, or longer is found and named") {
  const Saved saved;
  const auto text = base::read_file(saved.shard(1));
  for (auto size = text.size(); size-- > 0;) {
    std::filesystem::resize_file(saved.shard(1), size);
    CHECK_THAT(saved.verdict(),
               Contains(saved.shard(1).string() + " has " + std::to_string(size) + " bytes, the manifest"));
  }
  saved.folder.write(saved.shard(1).filename().string(), text + '\0');
  CHECK_THAT(saved.verdict(), Contains("cut or damaged"));
  std::filesystem::remove(saved.shard(1));
  CHECK_THAT(saved.verdict(), Contains(saved.shard(1).string() + " is part of the checkpoint and cannot be read"));
  std::filesystem::create_directory(saved.shard(1));
  CHECK_THAT(saved.verdict(), Contains(saved.shard(1).string()));
}

TEST_CASE("a folder without a manifest is no checkpoint") {
  const test::TempFolder folder;
  CHECK_THAT(test::error_of([&] { const StoredCheckpoint stored(folder.path()); }), Contains("manifest.json"));
  CHECK_THAT(test::error_of([&] { const StoredCheckpoint stored(folder / "none"); }), Contains("manifest.json"));
}

// A checkpoint whose manifest has the true hashes of shards with other tensors than it lists.
std::string verdict_of_lie(const Manifest& written, const std::function<void(Manifest&)>& lie) {
  const test::TempFolder folder;
  write_saved(folder.path(), written);
  auto manifest = read_manifest(folder.path());
  lie(manifest);
  folder.write(manifest_name, to_text(manifest));
  return test::error_of([&] { StoredCheckpoint(folder.path()).verify(0, 1); });
}

TEST_CASE("a shard with other tensors, types or shapes than the manifest lists is refused, whatever its hashes say") {
  const auto honest = saved_manifest();
  CHECK(verdict_of_lie(honest, [](Manifest&) {}) == "no error");
  CHECK_THAT(verdict_of_lie(honest, [](Manifest& m) { m.tensors.pop_back(); }),
             Contains("shard_00001.safetensors holds 4 tensors, the manifest lists 2 there"));
  CHECK_THAT(verdict_of_lie(honest, [](Manifest& m) { m.tensors[2].parameter.fqn = "d"; }),
             Contains("shard_00001.safetensors holds no tensor master/d"));
  CHECK_THAT(verdict_of_lie(honest, [](Manifest& m) { m.tensors[2].states[1] = "exp_avg_sq"; }),
             Contains("shard_00001.safetensors holds no tensor exp_avg_sq/c"));
  CHECK_THAT(verdict_of_lie(honest, [](Manifest& m) { m.tensors[2].type = ElementType::F64; }),
             Contains("tensor master/c has another type or shape than in the manifest"));
  CHECK_THAT(verdict_of_lie(honest,
                            [](Manifest& m) {
                              m.tensors[2].parameter.shape = {2, 2};
                              m.tensors[2].pieces[0].box.dims = {{0, 2}, {0, 2}};
                            }),
             Contains("tensor master/c has another type or shape than in the manifest"));
  // The hashes of two states change places: each is true of some bytes, but not of these.
  CHECK_THAT(
      verdict_of_lie(
          honest, [](Manifest& m) { std::swap(m.tensors[2].pieces[0].hashes[0], m.tensors[2].pieces[0].hashes[1]); }),
      Contains("tensor master/c, bytes"));
  CHECK_THAT(verdict_of_lie(honest, [](Manifest& m) { std::swap(m.files[0].name, m.files[1].name); }),
             Contains("shard_0000"));
}

TEST_CASE("every box of a parameter is read from the pieces that have something of it, to the element") {
  const Saved saved;
  StoredCheckpoint stored(saved.folder.path());
  const auto manifest = saved_manifest();
  for (std::size_t t = 0; t < manifest.tensors.size(); ++t) {
    const auto& shape = manifest.tensors[t].parameter.shape;
    const auto columns = shape.size() == 2 ? shape[1] : 1;
    for (std::int64_t r0 = 0; r0 < shape[0]; ++r0)
      for (std::int64_t r1 = r0 + 1; r1 <= shape[0]; ++r1)
        for (std::int64_t c0 = 0; c0 < columns; ++c0)
          for (std::int64_t c1 = c0 + 1; c1 <= columns; ++c1)
            for (std::size_t s = 0; s < 2; ++s) {
              layout::Box box{{{r0, r1}}};
              if (shape.size() == 2) box.dims.push_back({c0, c1});
              const auto parts = stored.parts(manifest.tensors[t].parameter.fqn, manifest.tensors[t].states[s], box);
              for (const auto& piece : parts.pieces) CHECK(layout::intersect(piece.box, box).elements() > 0);
              const auto read = read_box(parts, box, at::kFloat);
              const auto expected = saved_content(manifest, t, s, box);
              REQUIRE(read.numel() == std::ssize(expected));
              CHECK(std::equal(expected.begin(), expected.end(), read.const_data_ptr<float>()));
            }
  }
}

TEST_CASE("only the files of a box are opened") {
  const Saved saved;
  std::filesystem::remove(saved.shard(0));
  std::filesystem::remove(saved.shard(2));
  StoredCheckpoint stored(saved.folder.path());
  CHECK(read_box(stored.parts("a", "master", {{{2, 4}, {0, 3}}}), {{{2, 4}, {0, 3}}}, at::kFloat).numel() == 6);
  CHECK_THAT(test::error_of([&] {
               static_cast<void>(stored.parts("a", "master", {{{1, 4}, {0, 3}}}));
             }),
             Contains("shard_00000.safetensors"));
  CHECK_THAT(test::error_of([&] {
               static_cast<void>(stored.parts("b", "exp_avg", {{{0, 1}, {4, 5}}}));
             }),
             Contains("shard_00002.safetensors"));
}

TEST_CASE("a checkpoint lists its content") {
  const Saved saved;
  StoredCheckpoint stored(saved.folder.path());
  CHECK(stored.folder() == saved.folder.path());
  CHECK(stored.manifest().progress.step == 3);
  REQUIRE(stored.find("b") != nullptr);
  CHECK(stored.find("b")->parameter.shape == std::vector<std::int64_t>{2, 7});
  CHECK(stored.find("master/b") == nullptr);
  CHECK_THROWS_AS(stored.parts("d", "master", {{{0, 1}}}), std::logic_error);
  std::uint64_t bytes = 0;
  for (std::size_t f = 0; f < 3; ++f) bytes += std::filesystem::file_size(saved.shard(f));
  CHECK(stored.bytes() == bytes);
}

}  // namespace
}  // namespace tessera::checkpoint

// If this failed, a saved file would differ from its manifest, or other programs could not read it.
#include "checkpoint/safetensors_writer.h"

#include <cstring>
#include <filesystem>
#include <numeric>

#include "support/catch.h"
#include "support/error_of.h"
#include "support/temp_folder.h"

namespace tessera::checkpoint {
namespace {

using Catch::Matchers::Contains;

std::vector<std::byte> content_of(std::size_t bytes) {
  std::vector<std::byte> content(bytes);
  for (std::size_t k = 0; k < bytes; ++k) content[k] = static_cast<std::byte>(k * 31 % 251);
  return content;
}

// Every kind of shape, empty ones at each place.
const std::vector<OutgoingTensor> tensors{
    {"none/first", ElementType::F32, {0, 4}},  {"master/a", ElementType::F32, {3, 5}},
    {"b \"quoted\"\n", ElementType::F64, {7}}, {"none/between", ElementType::F64, {0}},
    {"scalar", ElementType::BF16, {}},         {"bytes", ElementType::U8, {3}},
    {"none/last", ElementType::U8, {2, 0}}};
constexpr std::size_t data_bytes = 60 + 56 + 2 + 3;
const std::map<std::string, std::string> metadata{{"format", "pt"}, {"step", "7"}};

WrittenFile write(const base::Path& path, std::size_t piece) {
  const auto content = content_of(data_bytes);
  SafetensorsWriter writer(path, tensors, metadata);
  for (std::size_t at = 0; at < content.size(); at += piece)
    writer.write(std::span(content).subspan(at, std::min(piece, content.size() - at)));
  return writer.finish();
}

TEST_CASE("a written file is read back: names, types, shapes, bytes, metadata") {
  const test::TempFolder folder;
  const auto written = write(folder / "m.safetensors", data_bytes);
  const SafetensorsFile file(folder / "m.safetensors");
  CHECK(file.metadata() == metadata);
  REQUIRE(file.tensors().size() == tensors.size());
  const auto content = content_of(data_bytes);
  std::uint64_t offset = 0;
  REQUIRE(written.hashes.size() == tensors.size());
  for (std::size_t k = 0; k < tensors.size(); ++k) {
    CAPTURE(tensors[k].name);
    const auto* stored = file.find(tensors[k].name);
    REQUIRE(stored != nullptr);
    CHECK(stored->type == tensors[k].type);
    CHECK(stored->shape == tensors[k].shape);
    CHECK(stored->begin == offset);
    CHECK(stored->end - stored->begin == tensors[k].bytes());
    offset = stored->end;
    const auto bytes = file.bytes(*stored);
    CHECK(std::equal(bytes.begin(), bytes.end(), content.begin() + static_cast<std::ptrdiff_t>(stored->begin)));
    CHECK(written.hashes[k] == base::xxh3(bytes));
  }
  CHECK(offset == data_bytes);
}

TEST_CASE("the writer tells the file's length and the hash of all that stands before the data") {
  const test::TempFolder folder;
  const auto written = write(folder / "m.safetensors", data_bytes);
  const SafetensorsFile file(folder / "m.safetensors");
  CHECK(written.bytes == std::filesystem::file_size(folder / "m.safetensors"));
  CHECK(written.header_hash == base::xxh3(file.header()));
  CHECK(file.header().size() == written.bytes - data_bytes);
  CHECK(file.header().size() % 8 == 0);  // numbers of 8 bytes are aligned in a mapped file
}

TEST_CASE("the pieces in which the bytes come change nothing") {
  const test::TempFolder folder;
  const auto expected = write(folder / "whole.safetensors", data_bytes);
  for (const std::size_t piece : {1, 2, 7, 59, 60, 61, 116, 120}) {
    CAPTURE(piece);
    const auto written = write(folder / "pieces.safetensors", piece);
    CHECK(written.hashes == expected.hashes);
    CHECK(base::read_file(folder / "pieces.safetensors") == base::read_file(folder / "whole.safetensors"));
  }
}

TEST_CASE("a tensor of several chunks has the hash of all of its bytes") {
  const test::TempFolder folder;
  const auto content = content_of((std::size_t{5} << 19) + 3);  // two and a half MiB and a bit
  SafetensorsWriter writer(folder / "m.safetensors",
                           {{"large", ElementType::U8, {std::ssize(content) - 9}}, {"small", ElementType::U8, {9}}},
                           {});
  writer.write(content);
  const auto written = writer.finish();
  CHECK(written.hashes ==
        std::vector{base::xxh3(std::span(content).first(content.size() - 9)), base::xxh3(std::span(content).last(9))});
  const SafetensorsFile file(folder / "m.safetensors");
  const auto bytes = file.bytes(*file.find("large"));
  CHECK(std::equal(bytes.begin(), bytes.end(), content.begin()));
}

TEST_CASE("a file may have no tensors, or none with elements, and no metadata") {
  const test::TempFolder folder;
  const auto none = SafetensorsWriter(folder / "none.safetensors", {}, {}).finish();
  CHECK(none.hashes.empty());
  CHECK(SafetensorsFile(folder / "none.safetensors").tensors().empty());
  const auto empty = SafetensorsWriter(folder / "empty.safetensors",
                                       {{"a", ElementType::F32, {0}}, {"b", ElementType::F64, {3, 0}}}, {})
                         .finish();
  CHECK(empty.hashes == std::vector{base::xxh3(std::string_view()), base::xxh3(std::string_view())});
  const SafetensorsFile file(folder / "empty.safetensors");
  CHECK(file.tensors().size() == 2);
  CHECK(file.metadata().empty());
}

TEST_CASE("a file that was there is replaced, longer or not") {
  const test::TempFolder folder;
  folder.write("m.safetensors", std::string(100'000, 'x'));
  const auto written = write(folder / "m.safetensors", data_bytes);
  CHECK(std::filesystem::file_size(folder / "m.safetensors") == written.bytes);
}

TEST_CASE("bytes that are missing or too many, and two tensors of one name, are the programmer's errors") {
  const test::TempFolder folder;
  const auto content = content_of(13);
  const std::vector<OutgoingTensor> twelve{{"a", ElementType::F32, {2}}, {"b", ElementType::F32, {1}}};
  SafetensorsWriter over(folder / "m.safetensors", twelve, {});
  CHECK_THROWS_AS(over.write(content), std::logic_error);
  SafetensorsWriter under(folder / "m.safetensors", twelve, {});
  under.write(std::span(content).first(11));
  CHECK_THROWS_AS(under.finish(), std::logic_error);
  CHECK_THROWS_AS(SafetensorsWriter(folder / "m.safetensors", {twelve[0], twelve[0]}, {}), std::logic_error);
}

TEST_CASE("a header that no reader takes is refused before there is a file") {
  const test::TempFolder folder;
  const auto path = folder / "file.safetensors";
  CHECK_THAT(test::error_of([&] {
               const SafetensorsWriter writer(path, {{std::string(header_limit, 'a'), ElementType::F32, {1}}}, {});
             }),
             Contains("readers take no more than 100000000"));
  CHECK_FALSE(std::filesystem::exists(path));
}

TEST_CASE("a folder that is not there is an error with the file's name") {
  const test::TempFolder folder;
  CHECK_THAT(test::error_of([&] { write(folder / "absent/m.safetensors", data_bytes); }),
             Contains("absent/m.safetensors"));
}

// What a file is told, in order.
struct Recorded final : base::FileSystem {
  struct File final : base::WritableFile {
    explicit File(std::vector<std::string>& list) : calls(list) {}
    void write(std::span<const std::byte>) override { calls.emplace_back("write"); }
    void sync() override { calls.emplace_back("sync"); }
    void close() override { calls.emplace_back("close"); }
    std::vector<std::string>& calls;
  };
  std::unique_ptr<base::WritableFile> create(const base::Path&) override { return std::make_unique<File>(calls); }
  std::unique_ptr<base::WritableFile> open_for_append(const base::Path&) override { throw std::logic_error("append"); }
  void rename(const base::Path&, const base::Path&) override { calls.emplace_back("rename"); }
  void exchange(const base::Path&, const base::Path&) override { calls.emplace_back("exchange"); }
  void remove(const base::Path&) override { calls.emplace_back("remove"); }
  void make_folder(const base::Path&) override { calls.emplace_back("make_folder"); }
  void sync_folder(const base::Path&) override { calls.emplace_back("sync_folder"); }
  std::vector<std::string> calls;
};

TEST_CASE("finish makes the file durable, after its last byte, and closes it") {
  Recorded files;
  SafetensorsWriter writer("m.safetensors", {{"a", ElementType::F32, {2}}}, {}, files);
  writer.write(content_of(8));
  CHECK(files.calls == std::vector<std::string>{"write", "write"});
  static_cast<void>(writer.finish());
  CHECK(files.calls == std::vector<std::string>{"write", "write", "sync", "close"});
}

}  // namespace
}  // namespace tessera::checkpoint

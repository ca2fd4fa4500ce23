#include "checkpoint/shard_files.h"

#include <fmt/format.h>

#include <utility>

namespace tessera::checkpoint {
namespace {

constexpr std::size_t numbers_before_hashes = 2;

}  // namespace

std::string shard_file_name(std::int64_t rank) { return fmt::format("shard_{:05}.safetensors", rank); }

WrittenFile with_hashes_at(WrittenFile file, const std::vector<std::size_t>& places, std::size_t count) {
  const auto hashes = std::exchange(file.hashes, std::vector<std::uint64_t>(count));
  for (std::size_t k = 0; k < places.size(); ++k) file.hashes[places[k]] = hashes[k];
  return file;
}

std::vector<WrittenFile> gather_files(const WrittenFile& own, comm::Communicator& world) {
  std::vector<std::uint64_t> numbers{own.bytes, own.header_hash};
  numbers.insert(numbers.end(), own.hashes.begin(), own.hashes.end());
  const auto ranks = static_cast<std::size_t>(world.rank() == 0 ? world.size() : 0);
  std::vector<std::int64_t> send(static_cast<std::size_t>(world.size()), 0);
  const std::vector<std::int64_t> receive(send.size(), world.rank() == 0 ? 1 : 0);
  send[0] = 1;
  std::vector<std::uint64_t> all(ranks * numbers.size());
  world
      .all_to_all_rows(numbers.data(), send, all.data(), receive, std::ssize(numbers), comm::ElementType::int64,
                       nullptr)
      ->wait();
  std::vector<WrittenFile> files;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const auto row = all.begin() + static_cast<std::ptrdiff_t>(rank * numbers.size());
    files.push_back({row[0], row[1], {row + numbers_before_hashes, row + std::ssize(numbers)}});
  }
  return files;
}

void add_files_and_pieces(Manifest& manifest, const std::vector<WrittenFile>& written, const BoxOfRank& box_of) {
  std::vector<std::size_t> file_of_rank;
  for (std::size_t rank = 0; rank < written.size(); ++rank) {
    file_of_rank.push_back(manifest.files.size());
    if (written[rank].bytes > 0)
      manifest.files.push_back(
          {shard_file_name(static_cast<std::int64_t>(rank)), written[rank].bytes, written[rank].header_hash});
  }
  std::ptrdiff_t hash = 0;
  for (std::size_t k = 0; k < manifest.tensors.size(); ++k) {
    auto& tensor = manifest.tensors[k];
    const auto end = hash + std::ssize(tensor.states);
    for (std::size_t rank = 0; rank < written.size(); ++rank) {
      auto box = box_of(k, static_cast<std::int64_t>(rank));
      if (box.elements() == 0) continue;
      const auto begin = written[rank].hashes.begin();
      tensor.pieces.push_back({file_of_rank[rank], std::move(box), {begin + hash, begin + end}});
    }
    hash = end;
  }
}

}  // namespace tessera::checkpoint

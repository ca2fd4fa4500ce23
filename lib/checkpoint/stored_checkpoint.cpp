#include "checkpoint/stored_checkpoint.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/error.h"
#include "base/hash.h"

namespace tessera::checkpoint {
StoredCheckpoint::StoredCheckpoint(const base::Path& folder)
    : folder_(folder), manifest_(read_manifest(folder)), files_(manifest_.files.size()) {
  for (std::size_t t = 0; t < manifest_.tensors.size(); ++t) index_.emplace(manifest_.tensors[t].parameter.fqn, t);
}

const ManifestTensor* StoredCheckpoint::find(const std::string& fqn) const {
  const auto it = index_.find(fqn);
  return it == index_.end() ? nullptr : &manifest_.tensors[it->second];
}

std::vector<StoredCheckpoint::Place> StoredCheckpoint::places_of(std::size_t file) const {
  std::vector<Place> places;
  for (std::size_t t = 0; t < manifest_.tensors.size(); ++t) {
    const auto& tensor = manifest_.tensors[t];
    for (std::size_t p = 0; p < tensor.pieces.size(); ++p)
      for (std::size_t s = 0; s < tensor.states.size() && tensor.pieces[p].file == file; ++s)
        places.push_back({t, p, s});
  }
  return places;
}

void StoredCheckpoint::check_header(const SafetensorsFile& file, std::size_t index) const {
  const auto& stored = manifest_.files[index];
  const auto path = file.path().string();
  base::require(base::xxh3(file.header()) == stored.header_hash,
                "{}: its header, bytes 0 to {}, does not have the hash that the manifest gives it; it is damaged", path,
                file.header().size());
  const auto places = places_of(index);
  base::require(places.size() == file.tensors().size(), "{} holds {} tensors, the manifest lists {} there", path,
                file.tensors().size(), places.size());
  for (const auto& place : places) {
    const auto& tensor = manifest_.tensors[place.tensor];
    const auto name = stored_name(tensor.states[place.state], tensor.parameter.fqn);
    const auto* found = file.find(name);
    base::require(found != nullptr, "{} holds no tensor {}, which the manifest lists there", path, name);
    base::require(found->type == tensor.type && found->shape == tensor.pieces[place.piece].box.shape(),
                  "{}: tensor {} has another type or shape than in the manifest", path, name);
  }
}

const SafetensorsFile& StoredCheckpoint::file(std::size_t index) {
  auto& file = files_[index];
  if (file != nullptr) return *file;
  const auto& stored = manifest_.files[index];
  const auto path = folder_ / stored.name;
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);
  base::require(!error, "{} is part of the checkpoint and cannot be read: {}", path.string(), error.message());
  base::require(size == stored.bytes, "{} has {} bytes, the manifest gives it {}; it is cut or damaged", path.string(),
                size, stored.bytes);
  auto opened = std::make_unique<SafetensorsFile>(path);
  check_header(*opened, index);
  file = std::move(opened);
  return *file;
}

StoredParameter StoredCheckpoint::parts(const std::string& fqn, const std::string& state, const layout::Box& box) {
  const auto* tensor = find(fqn);
  base::expect(tensor != nullptr, "{} is not a parameter of this checkpoint", fqn);
  StoredParameter found{tensor->parameter, {}};
  const auto name = stored_name(state, fqn);
  for (const auto& piece : tensor->pieces) {
    if (layout::intersect(piece.box, box).elements() == 0) continue;
    const auto& in = file(piece.file);
    const auto* stored = in.find(name);
    base::expect(stored != nullptr, "{} is not in this checkpoint", name);
    found.pieces.push_back({piece.box, &in, stored, 0, row_major_strides(piece.box.shape())});
  }
  return found;
}

std::uint64_t StoredCheckpoint::bytes() const {
  std::uint64_t sum = 0;
  for (const auto& file : manifest_.files) sum += file.bytes;
  return sum;
}

std::uint64_t StoredCheckpoint::verify(std::int64_t part, std::int64_t parts) {
  base::expect(part >= 0 && part < parts, "share {} of {}", part, parts);
  const auto total = bytes();
  const auto share_of = [&](std::uint64_t offset) {  // whose byte `offset` is
    return static_cast<std::int64_t>(static_cast<long double>(offset) / static_cast<long double>(total) *
                                     static_cast<long double>(parts));
  };
  std::uint64_t begin = 0, read = 0;
  for (std::size_t f = 0; f < manifest_.files.size(); begin += manifest_.files[f++].bytes) {
    if (share_of(begin) > part || share_of(begin + manifest_.files[f].bytes) < part) continue;
    const auto& in = file(f);
    const auto header = in.header().size();
    for (const auto& place : places_of(f)) {
      const auto& tensor = manifest_.tensors[place.tensor];
      const auto name = stored_name(tensor.states[place.state], tensor.parameter.fqn);
      const auto& stored = *in.find(name);
      if (share_of(begin + header + stored.begin) != part) continue;
      const auto content = in.bytes(stored);
      read += content.size();
      base::require(base::xxh3(content) == tensor.pieces[place.piece].hashes[place.state],
                    "{}: tensor {}, bytes {} to {} of the file, does not have the hash that the manifest gives it; it "
                    "is damaged",
                    in.path().string(), name, header + stored.begin, header + stored.end);
    }
  }
  return read;
}

}  // namespace tessera::checkpoint

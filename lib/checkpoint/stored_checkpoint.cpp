#include "checkpoint/stored_checkpoint.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/disk_work.h"
#include "base/error.h"
#include "base/hash.h"
#include "checkpoint/companions.h"

namespace tessera::checkpoint {
namespace {

constexpr std::size_t chunk_bytes = 4 << 20;
constexpr std::uint64_t read_ahead_bytes = 64 << 20;

}  // namespace

StoredCheckpoint::StoredCheckpoint(const base::Path& folder)
    : folder_(folder),
      manifest_(read_manifest(folder)),
      pieces_(manifest_.files.size()),
      files_(manifest_.files.size()) {
  for (std::size_t t = 0; t < manifest_.tensors.size(); ++t) {
    const auto& tensor = manifest_.tensors[t];
    index_.emplace(tensor.parameter.fqn, t);
    for (std::size_t p = 0; p < tensor.pieces.size(); ++p) pieces_[tensor.pieces[p].file].push_back({t, p});
  }
}

const ManifestTensor* StoredCheckpoint::find(const std::string& fqn) const {
  const auto it = index_.find(fqn);
  return it == index_.end() ? nullptr : &manifest_.tensors[it->second];
}

void StoredCheckpoint::check_header(const SafetensorsFile& file, std::size_t index) const {
  const auto& stored = manifest_.files[index];
  const auto path = file.path().string();
  base::require(base::xxh3(file.header()) == stored.header_hash,
                "{}: its header, bytes 0 to {}, does not have the hash that the manifest gives it; it is damaged", path,
                file.header().size());
  std::size_t listed = 0;
  for (const auto& piece : pieces_[index]) {
    const auto& tensor = manifest_.tensors[piece.tensor];
    listed += tensor.states.size();
    for (const auto& state : tensor.states) {
      const auto name = stored_name(state, tensor.parameter.fqn);
      const auto* found = file.find(name);
      base::require(found != nullptr, "{} holds no tensor {}, which the manifest lists there", path, name);
      base::require(found->type == tensor.type && found->shape == tensor.pieces[piece.piece].box.shape(),
                    "{}: tensor {} has another type or shape than in the manifest", path, name);
    }
  }
  base::require(listed == file.tensors().size(), "{} holds {} tensors, the manifest lists {} there", path,
                file.tensors().size(), listed);
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
  for (const auto& companion : manifest_.companions) sum += companion.bytes;
  return sum;
}

std::string StoredCheckpoint::name_of(const PieceIndex& piece, std::size_t state) const {
  const auto& tensor = manifest_.tensors[piece.tensor];
  return stored_name(tensor.states[state], tensor.parameter.fqn);
}

std::uint64_t StoredCheckpoint::verify_tensor(const SafetensorsFile& file, const StoredTensor& stored,
                                              const PieceIndex& piece, std::size_t state) const {
  const auto content = file.bytes(stored);
  const auto header = file.header().size();
  base::Xxh3Stream hash;
  base::DiskWork work("reading", file.path().native());
  file.prefetch(stored.begin, read_ahead_bytes);
  for (std::size_t at = 0; at < content.size(); at += chunk_bytes) {
    file.prefetch(stored.begin + at + read_ahead_bytes, chunk_bytes);
    hash.update(content.subspan(at, std::min(chunk_bytes, content.size() - at)));
    work.has_gone_on();
  }
  base::require(hash.digest() == manifest_.tensors[piece.tensor].pieces[piece.piece].hashes[state],
                "{}: tensor {}, bytes {} to {} of the file, does not have the hash that the manifest gives it; it is "
                "damaged",
                file.path().string(), stored.name, header + stored.begin, header + stored.end);
  return content.size();
}

std::uint64_t StoredCheckpoint::verify(std::int64_t part, std::int64_t parts) {
  base::expect(part >= 0 && part < parts, "share {} of {}", part, parts);
  const auto total = std::max<std::uint64_t>(bytes(), 1);
  const auto share_of = [&](std::uint64_t offset) {  // the share that byte `offset` belongs to
    return static_cast<std::int64_t>(static_cast<long double>(offset) / static_cast<long double>(total) *
                                     static_cast<long double>(parts));
  };
  std::uint64_t begin = 0, read = 0;
  if (part == 0)
    for (const auto& companion : companions_of(folder_, manifest_)) read += companion.content.size();
  for (std::size_t f = 0; f < manifest_.files.size(); begin += manifest_.files[f++].bytes) {
    if (share_of(begin) > part || share_of(begin + manifest_.files[f].bytes) < part) continue;
    const auto& in = file(f);
    for (const auto& piece : pieces_[f])
      for (std::size_t s = 0; s < manifest_.tensors[piece.tensor].states.size(); ++s) {
        const auto& stored = *in.find(name_of(piece, s));
        if (share_of(begin + in.header().size() + stored.begin) == part) read += verify_tensor(in, stored, piece, s);
      }
  }
  return read;
}

}  // namespace tessera::checkpoint

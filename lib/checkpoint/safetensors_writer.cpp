#include "checkpoint/safetensors_writer.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/error.h"

namespace tessera::checkpoint {
namespace {

// Small enough that a chunk is still in the cache when it is written after being hashed.
constexpr std::size_t written_at_once = 1 << 20;

std::string header_of(const std::vector<OutgoingTensor>& tensors, const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json json;
  if (!metadata.empty()) json["__metadata__"] = metadata;
  std::uint64_t offset = 0;
  for (const auto& tensor : tensors) {
    base::expect(!json.contains(tensor.name), "two tensors of a file are called {}", tensor.name);
    const auto end = offset + tensor.bytes();
    json[tensor.name] = {{"dtype", name(tensor.type)}, {"shape", tensor.shape}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  auto text = json.is_null() ? "{}" : json.dump();
  base::require(text.size() <= header_limit - 8,
                "a header of {} bytes for {} tensors, but readers take no more than {}; put fewer tensors into a file",
                text.size(), tensors.size(), header_limit);
  text.append((8 - text.size() % 8) % 8, ' ');  // the data begin at a multiple of 8
  const std::uint64_t length = text.size();
  std::string header(sizeof length, '\0');
  std::memcpy(header.data(), &length, sizeof length);
  return header + text;
}

}  // namespace

std::uint64_t OutgoingTensor::bytes() const {
  std::uint64_t elements = 1;
  for (const auto size : shape) elements *= static_cast<std::uint64_t>(size);
  return elements * bits(type) / 8;
}

SafetensorsWriter::SafetensorsWriter(const base::Path& path, std::vector<OutgoingTensor> tensors,
                                     const std::map<std::string, std::string>& metadata, base::FileSystem& files)
    : tensors_(std::move(tensors)) {
  const auto header = header_of(tensors_, metadata);
  file_ = files.create(path);
  file_->write(std::as_bytes(std::span(header)));
  written_.header_hash = base::xxh3(header);
  written_.bytes = header.size();
  rest_ = tensors_.empty() ? 0 : tensors_.front().bytes();
  end_tensors_without_rest();
}

void SafetensorsWriter::end_tensors_without_rest() {
  while (rest_ == 0 && written_.hashes.size() < tensors_.size()) {
    written_.hashes.push_back(hash_.digest());
    hash_ = base::Xxh3Stream();
    if (written_.hashes.size() < tensors_.size()) rest_ = tensors_[written_.hashes.size()].bytes();
  }
}

void SafetensorsWriter::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    base::expect(rest_ > 0, "{} bytes after the last tensor of a file", bytes.size());
    const auto count = std::min({bytes.size(), static_cast<std::size_t>(rest_), written_at_once});
    const auto chunk = bytes.first(count);
    hash_.update(chunk);
    file_->write(chunk);
    written_.bytes += count;
    rest_ -= count;
    bytes = bytes.subspan(count);
    end_tensors_without_rest();
  }
}

WrittenFile SafetensorsWriter::finish() {
  base::expect(written_.hashes.size() == tensors_.size(), "a file ends within its tensor {} of {}",
               written_.hashes.size(), tensors_.size());
  file_->sync();
  file_->close();
  return std::move(written_);
}

}  // namespace tessera::checkpoint

// A checkpoint of ours, opened for reading: any part of any parameter's state, whoever wrote it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/file.h"
#include "checkpoint/huggingface.h"
#include "checkpoint/manifest.h"
#include "checkpoint/safetensors.h"
#include "layout/block.h"

namespace tessera::checkpoint {

// One thread at a time. Files are opened when something of them is asked for.
class StoredCheckpoint {
 public:
  // Error(bad_input) if the folder holds no manifest or a damaged one.
  explicit StoredCheckpoint(const base::Path& folder);

  [[nodiscard]] const base::Path& folder() const { return folder_; }
  [[nodiscard]] const Manifest& manifest() const { return manifest_; }
  // Null if there is none of that name.
  [[nodiscard]] const ManifestTensor* find(const std::string& fqn) const;

  // Those pieces of a state that have something of `box`, to be read by read_box (reader.h). Opens their files.
  // Error(bad_input) naming file and tensor for a file that is missing, or differs from the manifest in length, header,
  // names, types or shapes. Preconditions: the parameter and the state are there, `box` lies within the parameter.
  [[nodiscard]] StoredParameter parts(const std::string& fqn, const std::string& state, const layout::Box& box);

  // Compares the headers and all bytes of share `part` of `parts` of the checkpoint (even in bytes; all of them are the
  // whole) with the manifest's hashes. Returns the bytes read. Error(bad_input) naming file, tensor and its range of
  // bytes.
  std::uint64_t verify(std::int64_t part, std::int64_t parts);

  // Of all files, as the manifest has them.
  [[nodiscard]] std::uint64_t bytes() const;

 private:
  struct Place {
    std::size_t tensor, piece;  // indices in the manifest
  };
  const SafetensorsFile& file(std::size_t index);
  [[nodiscard]] std::string name_of(const Place& place, std::size_t state) const;
  std::uint64_t verify_tensor(const SafetensorsFile& file, const StoredTensor& stored, const Place& place,
                              std::size_t state) const;
  void check_header(const SafetensorsFile& file, std::size_t index) const;

  base::Path folder_;
  Manifest manifest_;
  std::map<std::string, std::size_t> index_;  // FQN -> tensor
  std::vector<std::vector<Place>> places_;    // of each file
  std::vector<std::unique_ptr<SafetensorsFile>> files_;
};

}  // namespace tessera::checkpoint

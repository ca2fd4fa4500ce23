// Reads any part of any parameter's state from a checkpoint of Tessera's, whatever layout wrote it.
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

// Use it from one thread at a time. Opens a file when it is first needed.
class StoredCheckpoint {
 public:
  // Reads the manifest. Throws Error(bad_input) if the folder has none or it is damaged.
  explicit StoredCheckpoint(const base::Path& folder);

  [[nodiscard]] const base::Path& folder() const { return folder_; }
  [[nodiscard]] const Manifest& manifest() const { return manifest_; }
  // Returns the parameter of that name, or null.
  [[nodiscard]] const ManifestTensor* find(const std::string& fqn) const;

  // Returns the pieces of a state that intersect `box`, for read_box (reader.h). Opens their files. Throws
  // Error(bad_input) naming file and tensor if a file is missing, or differs from the manifest in length, header,
  // names, types or shapes. Preconditions: the checkpoint has the parameter and the state, `box` lies within the
  // parameter.
  [[nodiscard]] StoredParameter parts(const std::string& fqn, const std::string& state, const layout::Box& box);

  // Compares share `part` of the `parts` shares of the checkpoint, headers included, with the hashes of the manifest.
  // Shares have about equally many bytes, and together they are the whole. Returns the bytes compared. Throws
  // Error(bad_input) naming file, tensor and its range of bytes.
  std::uint64_t verify(std::int64_t part, std::int64_t parts);

  // The bytes of all files, as in the manifest.
  [[nodiscard]] std::uint64_t bytes() const;

 private:
  struct PieceIndex {
    std::size_t tensor, piece;  // in the manifest
  };
  const SafetensorsFile& file(std::size_t index);
  [[nodiscard]] std::string name_of(const PieceIndex& piece, std::size_t state) const;
  std::uint64_t verify_tensor(const SafetensorsFile& file, const StoredTensor& stored, const PieceIndex& piece,
                              std::size_t state) const;
  void check_header(const SafetensorsFile& file, std::size_t index) const;

  base::Path folder_;
  Manifest manifest_;
  std::map<std::string, std::size_t> index_;     // FQN -> tensor
  std::vector<std::vector<PieceIndex>> pieces_;  // by file
  std::vector<std::unique_ptr<SafetensorsFile>> files_;
};

}  // namespace tessera::checkpoint

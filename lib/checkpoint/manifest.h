// manifest.json, the description of a checkpoint. README.md in this folder describes the format.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/parameter_spec.h"
#include "checkpoint/safetensors.h"
#include "layout/block.h"

namespace tessera::checkpoint {

inline constexpr std::int64_t format_version = 1;
inline constexpr const char* manifest_name = "manifest.json";

// The progress of training. With weights and moments, it is all that a run needs to resume.
struct Progress {
  std::int64_t step = 0;             // steps taken, skipped ones included
  std::int64_t optimizer_steps = 0;  // updates made
  std::int64_t skipped_steps = 0;
  std::int64_t total_steps = 0;  // of the whole run; the learning rates depend on it
  std::int64_t tokens = 0;
  // Sequences of a step, and of a micro-step over all ranks.
  std::int64_t global_batch = 0, micro_step = 0;
  std::int64_t evaluated_at = -1;  // the step after which the last evaluation was made; -1: none
  // The next window, and a hash of some windows around it, by which a resumed run recognises other data.
  std::int64_t epoch = 0, window = 0;
  std::uint64_t data_hash = 0;
  // Hashes of the training data (data::Fingerprint), of all of their bytes where that leaves some out
  // (data::ContentHash), and of the held-out data. 0: not known.
  std::uint64_t data_fingerprint = 0, data_content = 0, held_out_fingerprint = 0;

  friend bool operator==(const Progress&, const Progress&) = default;
};

struct StoredFile {
  std::string name;  // beside the manifest
  std::uint64_t bytes = 0;
  std::uint64_t header_hash = 0;  // XXH3 of all bytes before the data
};

// A box of a parameter; one file holds all states of it.
struct ManifestPiece {
  std::size_t file = 0;
  layout::Box box;                    // not empty
  std::vector<std::uint64_t> hashes;  // XXH3 of the bytes of each state
};

struct ManifestTensor {
  base::ParameterSpec parameter;
  ElementType type{};
  std::vector<std::string> states;    // "master", "exp_avg", ...; each state has all pieces
  std::vector<ManifestPiece> pieces;  // disjoint; they cover the parameter
};

// A file that belongs to the model but not to its weights: see companions.h.
struct StoredCompanion {
  std::string name;  // beside the manifest
  std::uint64_t bytes = 0;
  std::uint64_t hash = 0;  // XXH3
};

struct Manifest {
  Progress progress;
  std::string layout;    // for the user: "4 ranks: dp_shard 4, ep 2"
  std::string settings;  // JSON text of all settings; "null" for weights that nothing trained
  std::string model;     // config.json of the model
  std::vector<StoredFile> files;
  std::vector<ManifestTensor> tensors;  // parameters, each once
  std::vector<StoredCompanion> companions = {};
};

// The name of the state that holds the weights of a parameter; all other states are moments.
inline constexpr const char* master_state = "master";

// Returns the name of a parameter's state in its file: "master/model.norm.weight".
[[nodiscard]] std::string stored_name(const std::string& state, const std::string& fqn);

// Returns the text of manifest.json, sealed.
[[nodiscard]] std::string to_text(const Manifest& manifest);

// Reads `folder`/manifest.json and checks it: the seal, the version, every number, that file names have no path, and
// that the pieces of a parameter cover it without overlap. Throws Error(bad_input) naming the file and the fault.
[[nodiscard]] Manifest read_manifest(const base::Path& folder);

// Checks and parses a manifest's text like read_manifest, but without the seal; for tests with untrusted texts.
[[nodiscard]] Manifest parse_manifest(std::string_view text, const std::string& source);

}  // namespace tessera::checkpoint

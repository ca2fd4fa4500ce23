// The small files beside a model's weights in a HuggingFace folder: generation_config.json, its tokenizer, its licence.
// Tessera does not read them, but the model is of little use without: they go from that folder into the checkpoints of
// a run that begins with it, and from a checkpoint into every HuggingFace folder that is made of it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "checkpoint/manifest.h"

namespace tessera::checkpoint {

struct Companion {
  std::string name;  // beside the weights
  std::string content;
};
using Companions = std::vector<Companion>;

// Larger ones, and what is more than this together, stay where they are.
inline constexpr std::uint64_t companion_limit = 64 << 20, companions_limit = 128 << 20;

// Whether a file of that name goes with the weights: "tokenizer.json" does, "config.json" and weights do not.
[[nodiscard]] bool is_companion(std::string_view name);

// Those beside the HuggingFace weights at `source` (a folder, a .safetensors file or an index), by name. Says which are
// too large. Error(bad_input) for one that cannot be read.
[[nodiscard]] Companions companions_beside(const base::Path& source);

// Those of a checkpoint. Error(bad_input), naming the file, for one that is not as the manifest says.
[[nodiscard]] Companions companions_of(const base::Path& checkpoint, const Manifest& manifest);

// Writes them into `folder`, durably but for their names.
void write_companions(const Companions& companions, const base::Path& folder, base::FileSystem& files);
// What a manifest says of them.
[[nodiscard]] std::vector<StoredCompanion> entries_of(const Companions& companions);

}  // namespace tessera::checkpoint

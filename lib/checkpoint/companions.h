// Companions: the small files beside a model's weights in a HuggingFace folder (generation_config.json, its tokenizer,
// its licence). Tessera does not read them, but the model is of little use without them. So a run that starts from such
// a folder copies them into its checkpoints, and a HuggingFace folder made from a checkpoint gets them back.
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

// Most bytes of one companion, and of all together; files beyond that are not copied.
inline constexpr std::uint64_t companion_limit = 64 << 20, companions_limit = 128 << 20;

// Returns whether a file of that name is a companion: "tokenizer.json" is, "config.json" and weights are not.
[[nodiscard]] bool is_companion(std::string_view name);

// Reads the companions beside the HuggingFace weights at `source` (a folder, a .safetensors file or an index), sorted
// by name. Warns of those that are too large. Throws Error(bad_input) for one that cannot be read.
[[nodiscard]] Companions companions_beside(const base::Path& source);

// Reads the companions of a checkpoint. Throws Error(bad_input), naming the file, if one differs from the manifest.
[[nodiscard]] Companions companions_of(const base::Path& checkpoint, const Manifest& manifest);

// Writes the companions into `folder`. Their content is durable then; their names are once the caller syncs the folder.
void write_companions(const Companions& companions, const base::Path& folder, base::FileSystem& files);
// Returns the manifest's entries for the companions.
[[nodiscard]] std::vector<StoredCompanion> entries_of(const Companions& companions);

}  // namespace tessera::checkpoint

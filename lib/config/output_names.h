// Names of files that a run writes into train.checkpoint.output_dir; a folder with both is recognised as its output.
#pragma once

namespace tessera::config {

inline constexpr const char* settings_name = "settings.resolved.json";
inline constexpr const char* metrics_name = "metrics.jsonl";

}  // namespace tessera::config

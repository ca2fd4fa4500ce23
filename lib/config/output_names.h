// Names of what a run writes into train.checkpoint.output_dir, by which the folder is known again.
#pragma once

namespace tessera::config {

inline constexpr const char* settings_name = "settings.resolved.json";
inline constexpr const char* metrics_name = "metrics.jsonl";

}  // namespace tessera::config

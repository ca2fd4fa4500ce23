// A row of the field table (fields.h): everything that the program knows of one setting.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "config/setting_value.h"
#include "config/settings.h"

namespace tessera::config {

// Settings under construction. Values given under VeOmni's other spellings stay apart until `merge` (precision) or
// `resolve` (ep) carries them over into the settings.
struct Draft {
  Settings settings;
  std::optional<std::int64_t> ep_size;         // train.accelerator.ep_size: one more entry of the extra parallel lists
  std::optional<bool> ep_outside;              // train.accelerator.ep_outside: that entry is not innermost
  std::optional<bool> mixed_precision;         // fsdp_config.mixed_precision.enable: becomes train.precision
  std::optional<std::string> parameter_dtype;  // fsdp_config.mixed_precision.param_dtype: the same
};

enum class FieldRole {
  setting,     // a member of Settings
  config_key,  // overrides a key of config.json; shown by the dump only if given
  spelling,    // VeOmni's spelling of another setting; never in the dump
};

// How a resumed run treats a setting whose value differs from the checkpoint's.
enum class OnResume : std::uint8_t {
  harmless,   // logs the difference; it does not alter the run
  alters,     // refuses it, unless train.checkpoint.allow_changes
  by_effect,  // ignores it, and compares its effect instead (the model, the data, the number of steps)
};

struct Field {
  std::string path;     // "train.optimizer.lr"
  std::string group{};  // heading in --help
  Form form{};
  FieldRole role = FieldRole::setting;
  std::string help{};     // one sentence, with what it costs
  std::string observe{};  // the visible effect of another value than the default
  std::string absent{};   // the meaning of an absent value, if it may be absent ("the number of cores")
  // A legal value other than the default, as words of a command line, and further options that it needs.
  std::vector<std::string> example{};
  std::vector<std::string> beside{};
  OnResume on_resume = OnResume::harmless;
  // The part that is not built yet ("checkpoints"); empty: built.
  std::string not_yet{};

  // Returns the value in a draft; nothing for a config_key or spelling that was not given.
  std::function<std::optional<Value>(const Draft&)> get{};
  // Sets the value in a draft. Precondition: a reader has checked it against `form`.
  std::function<void(Draft&, const Value&)> set{};

  [[nodiscard]] std::optional<Value> default_value() const { return get(Draft{}); }
  // Returns the type as --help shows it after the name: words joined by '|', or the kind.
  [[nodiscard]] std::string type_name() const;
  // Returns the range as --help shows it, without the upper bound of counts (2^31 - 1).
  [[nodiscard]] std::string range_text() const;
};

}  // namespace tessera::config

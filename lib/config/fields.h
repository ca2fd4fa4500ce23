// The field table: one row per setting. The JSON reader, the command line, --help, the dump and the manual page are
// views of it; a setting exists because it has a row here.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/settings.h"
#include "config/value.h"

namespace tessera::config {

// Settings under construction, with what other spellings said until `resolve` folds it in.
struct Draft {
  Settings settings;
  std::optional<std::int64_t> ep_size;         // train.accelerator.ep_size: one more entry of the extra parallel lists
  std::optional<bool> ep_outside;              // not innermost
  std::optional<bool> mixed_precision;         // fsdp_config.mixed_precision.enable: folded into train.precision
  std::optional<std::string> parameter_dtype;  // fsdp_config.mixed_precision.param_dtype: the same
};

enum class Role {
  setting,     // a member of Settings
  config_key,  // overrides a key of config.json; shown by the dump only if given
  spelling,    // VeOmni's spelling of another setting; never in the dump
};

// What a resumed run does with another value than the run before it had.
enum class OnResume : std::uint8_t {
  harmless,   // logs it: the run goes on as it would have
  alters,     // refuses it, unless train.checkpoint.allow_changes
  by_effect,  // nothing by itself: what the setting leads to is compared (the model, the data, the number of steps)
};

struct Field {
  std::string path;     // "train.optimizer.lr"
  std::string group{};  // heading in --help
  Form form{};
  Role role = Role::setting;
  std::string help{};     // one sentence, with what it costs
  std::string observe{};  // what one sees when it is moved off its default
  std::string absent{};   // what no value means, where there may be none ("the number of cores")
  // A legal value other than the default, as words of a command line, and options that it needs beside it.
  std::vector<std::string> example{};
  std::vector<std::string> beside{};
  OnResume on_resume = OnResume::harmless;
  // The part that is not built yet ("checkpoints"); empty: built.
  std::string not_yet{};

  // The value in a draft; nothing for a config_key or spelling that was not given.
  std::function<std::optional<Value>(const Draft&)> get{};
  // Precondition: a value that a reader has checked against `form`.
  std::function<void(Draft&, const Value&)> set{};

  [[nodiscard]] std::optional<Value> default_value() const { return get(Draft{}); }
  // What follows the name in --help: words joined by '|', or the kind.
  [[nodiscard]] std::string type_name() const;
  // The range for --help: without the bound of counts, which no one meets.
  [[nodiscard]] std::string range_text() const;
};

// All rows, sections together, in the order of --help and of the dump.
[[nodiscard]] const std::vector<Field>& fields();

// Row with exactly this path, or null. Sees through other spellings of whole sections (see canonical_path).
[[nodiscard]] const Field* find_field(std::string_view path);

// A section that VeOmni has, or had, under another name.
struct SectionSpelling {
  std::string spelled;    // "model.model_config."
  std::string canonical;  // "model."
};
[[nodiscard]] const std::vector<SectionSpelling>& section_spellings();

// "model.model_config.hidden_size" -> "model.hidden_size"; other paths are returned as they are.
[[nodiscard]] std::string canonical_path(std::string_view path);

// Whether `path` is an object in a settings file: the parent of a known name.
[[nodiscard]] bool is_section(std::string_view path);

// Every name for "did you mean": rows and their sections.
[[nodiscard]] const std::vector<std::string>& known_names();

// Text of one setting: value_text(settings, "train.precision") is "bfloat16".
[[nodiscard]] std::string value_text(const Settings& settings, std::string_view path);

}  // namespace tessera::config

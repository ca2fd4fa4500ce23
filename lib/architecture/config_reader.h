// Reads the keys of a config.json for a family of models, and reports those that nobody asked for.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "config/setting_value.h"

namespace tessera::architecture {

// A key of which some values only are supported.
struct FixedKey {
  const char* key;
  std::vector<nlohmann::json> supported;
};

class ConfigReader {
 public:
  // Lays `overrides` (key -> JSON text of the value) over the document. All references must outlive the reader.
  ConfigReader(const base::JsonDocument& document, const std::map<std::string, std::string>& overrides,
               base::Problems& problems);

  // Returns the value of a key, which is known from now on; null if it is absent.
  const nlohmann::json* find(std::string_view key);
  // Reads the value of `key` into `member`; false if it is absent or wrong (then a problem).
  template <class T>
  bool take(std::string_view key, const config::Form& form, T& member) {
    const auto* json = find(key);
    return json != nullptr && take_value(*json, named(key), form, member);
  }
  // Reads a value that a message calls `name`.
  template <class T>
  bool take_value(const nlohmann::json& json, const std::string& name, const config::Form& form, T& member) {
    config::Reading reading = config::read_json_value(form, json);
    if (!reading.value) {
      problems_.add("{}{}{}", name, reading.problem.starts_with('[') ? "" : " ", reading.problem);
      return false;
    }
    member = std::get<T>(std::move(*reading.value));
    return true;
  }
  // Reads rope_theta of the older generation, rope_parameters {rope_theta, rope_type} of the newer, and rope_scaling of
  // the older one, of which only the default is supported.
  void take_rotary(double& theta);
  void check_fixed(const std::vector<FixedKey>& keys);
  // Reports the keys that were not found and may change a model of the family `title`.
  void check_rest(std::string_view title);
  void refuse(const std::string& name, const nlohmann::json& value, std::string_view supported);

  // "config.json:3: hidden_size", or "model.hidden_size" of the settings.
  [[nodiscard]] std::string named(std::string_view key) const;
  [[nodiscard]] bool is_overridden(std::string_view key) const { return overridden_.contains(key); }
  [[nodiscard]] base::Problems& problems() { return problems_; }
  [[nodiscard]] static std::string shown(const nlohmann::json& json);

 private:
  void lay_over(const std::string& key, nlohmann::json value);
  void take_rotary_member(std::string_view key, const std::string& name, const nlohmann::json& value, bool older,
                          double& theta);

  const base::JsonDocument& document_;
  base::Problems& problems_;
  nlohmann::json json_ = nlohmann::json::object();
  std::set<std::string, std::less<>> overridden_;
  std::set<std::string, std::less<>> known_;
};

// Forms of keys.
[[nodiscard]] inline config::Form count(double low) {
  return {.kind = config::Kind::integer, .range = config::count_from(low)};
}
[[nodiscard]] inline config::Form number(config::Range range) { return {.kind = config::Kind::number, .range = range}; }
[[nodiscard]] inline config::Form boolean() { return {.kind = config::Kind::boolean}; }

}  // namespace tessera::architecture

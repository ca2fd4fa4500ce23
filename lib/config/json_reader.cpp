#include "config/json_reader.h"

#include <nlohmann/json.hpp>

#include "base/nearest.h"
#include "config/fields.h"
#include "config/foreign_names.h"

namespace tessera::config {
namespace {

using Json = nlohmann::json;

// HuggingFace's files have these keys at the top level; settings files never do.
bool is_huggingface_config(const Json& json) {
  return json.contains("model_type") || json.contains("architectures") ||
         (json.contains("hidden_size") && json.contains("num_hidden_layers"));
}

class Reader {
 public:
  Reader(const base::JsonDocument& document, base::Problems& problems) : document_(document), problems_(problems) {}

  Source read() {
    const Json& json = document_.value();
    if (!json.is_object() || is_huggingface_config(json)) source_.content = Content::other;
    if (!json.is_object())
      problems_.add("{}: settings are one JSON object: {{\"model\": ..., \"data\": ..., \"train\": ...}}",
                    document_.place_of(""));
    else if (is_huggingface_config(json))
      problems_.add("{} is a HuggingFace config.json, not a settings file; use --model.config_path {}",
                    document_.source(), document_.source());
    else
      read_section(json, "", "");
    return std::move(source_);
  }

 private:
  void read_section(const Json& section, const std::string& path, const std::string& pointer) {
    for (const auto& [key, value] : section.items()) {
      const std::string name = path.empty() ? key : path + "." + key;
      const std::string at = pointer + "/" + base::escape_pointer(key);
      if (key.find('.') != std::string::npos)
        problems_.add("{}: \"{}\" has a dot in its name; write nested objects: {{\"train\": {{\"seed\": 1}}}}",
                      document_.place_of(at), name);
      else
        read_member(value, name, at);
    }
  }

  void read_member(const Json& value, const std::string& name, const std::string& at) {
    const std::string place = document_.place_of(at);
    if (const Field* field = find_field(name)) {
      Reading reading = read_json_value(field->form, value);
      if (reading.value)
        source_.assignments.push_back({field, name, place, std::move(*reading.value)});
      else
        problems_.add("{}: {}{}{}", place, name, reading.problem.starts_with('[') ? "" : " ", reading.problem);
      return;
    }
    const bool section = is_section(name) || is_foreign_section(name);
    if (section && value.is_object()) return read_section(value, name, at);
    if (note_foreign(name, value.dump(-1, ' ', false, Json::error_handler_t::replace), place, source_, problems_))
      return;
    if (section)
      problems_.add("{}: {} is a section; give an object with the settings that belong to it", place, name);
    else
      problems_.add("{}: unknown setting {}{}", place, name, base::did_you_mean(name, known_names()));
  }

  const base::JsonDocument& document_;
  base::Problems& problems_;
  Source source_;
};

}  // namespace

Source read_settings(const base::JsonDocument& document, base::Problems& problems) {
  return Reader(document, problems).read();
}

Source read_settings_file(const std::filesystem::path& path, base::Problems& problems) {
  try {
    return read_settings(base::parse_json_file(path, base::JsonComments::allowed), problems);
  } catch (const base::Error& error) {
    problems.add(std::string(error.what()));
    return {.content = Content::other, .assignments = {}, .notices = {}};
  }
}

}  // namespace tessera::config

#include "config/dump.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "config/fields.h"

namespace tessera::config {

std::string dump_settings(const Settings& settings) {
  Draft draft;
  draft.settings = settings;
  nlohmann::ordered_json tree = nlohmann::ordered_json::object();
  for (const Field& field : fields()) {
    if (field.role == FieldRole::spelling) continue;
    const std::optional<Value> value = field.get(draft);
    if (!value) continue;
    std::string pointer = "/" + field.path;
    std::replace(pointer.begin(), pointer.end(), '.', '/');
    tree[nlohmann::ordered_json::json_pointer(pointer)] = to_json(*value);
  }
  return tree.dump(2) + "\n";
}

}  // namespace tessera::config

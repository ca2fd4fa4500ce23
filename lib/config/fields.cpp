#include "config/fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "config/field_rows.h"

namespace tessera::config {
namespace {

std::vector<Field> all_rows() {
  std::vector<Field> table;
  add_model_fields(table);
  add_data_fields(table);
  add_train_fields(table);
  add_optimizer_fields(table);
  add_accelerator_fields(table);
  add_output_fields(table);
  return table;
}

// Every parent of a name: "train", "train.optimizer".
std::set<std::string> all_sections() {
  std::set<std::string> sections;
  const auto add_parents = [&](const std::string& path) {
    for (std::size_t dot = path.find('.'); dot != std::string::npos; dot = path.find('.', dot + 1))
      sections.insert(path.substr(0, dot));
  };
  for (const Field& field : fields()) add_parents(field.path);
  for (const SectionSpelling& spelling : section_spellings()) {
    add_parents(spelling.spelled);
    for (const Field& field : fields())
      if (field.path.starts_with(spelling.canonical))
        add_parents(spelling.spelled + field.path.substr(spelling.canonical.size()));
  }
  return sections;
}

std::vector<std::string> all_names() {
  std::vector<std::string> names;
  for (const Field& field : fields()) names.push_back(field.path);
  std::set<std::string> sections;
  for (const Field& field : fields())
    for (std::size_t dot = field.path.find('.'); dot != std::string::npos; dot = field.path.find('.', dot + 1))
      sections.insert(field.path.substr(0, dot));
  names.insert(names.end(), sections.begin(), sections.end());
  return names;
}

}  // namespace

std::string Field::type_name() const {
  if (form.words.empty()) return kind_name(form.kind);
  const auto words = fmt::format("{}", fmt::join(form.words, "|"));
  return form.kind == Kind::word ? words : fmt::format("{}|{}", words, kind_name(form.kind));
}

std::string Field::range_text() const {
  Range range = form.range;
  if (range.high >= count_from(0).high) range.high_end = Range::End::none;
  return range.str();
}

const std::vector<Field>& fields() {
  static const std::vector<Field> table = all_rows();
  return table;
}

const std::vector<SectionSpelling>& section_spellings() {
  static const std::vector<SectionSpelling> spellings{
      {"model.model_config.", "model."},
      {"model.accelerator.gradient_checkpointing.", "train.gradient_checkpointing."},
      {"train.accelerator.gradient_checkpointing.", "train.gradient_checkpointing."},
      {"model.accelerator.", "train.accelerator."},
      {"model.optimizer.", "train.optimizer."},
  };
  return spellings;
}

std::string canonical_path(std::string_view path) {
  for (const SectionSpelling& spelling : section_spellings()) {
    if (!path.starts_with(spelling.spelled)) continue;
    std::string canonical = spelling.canonical + std::string(path.substr(spelling.spelled.size()));
    // Among `model.*`, only keys of config.json have the spelling model.model_config.*.
    if (spelling.canonical != "model.") return canonical;
    const bool is_key = std::any_of(fields().begin(), fields().end(), [&](const Field& field) {
      return field.role == FieldRole::config_key && field.path == canonical;
    });
    return is_key ? canonical : std::string(path);
  }
  return std::string(path);
}

const Field* find_field(std::string_view path) {
  static const std::map<std::string, const Field*, std::less<>> index = [] {
    std::map<std::string, const Field*, std::less<>> by_path;
    for (const Field& field : fields()) {
      const bool fresh = by_path.emplace(field.path, &field).second;
      base::expect(fresh, "two rows for {}", field.path);
    }
    return by_path;
  }();
  const auto found = index.find(canonical_path(path));
  return found == index.end() ? nullptr : found->second;
}

bool is_section(std::string_view path) {
  static const std::set<std::string> sections = all_sections();
  return sections.contains(std::string(path));
}

const std::vector<std::string>& known_names() {
  static const std::vector<std::string> names = all_names();
  return names;
}

std::string value_text(const Settings& settings, std::string_view path) {
  const Field* field = find_field(path);
  base::expect(field != nullptr, "no setting {}", path);
  Draft draft;
  draft.settings = settings;
  return to_text(field->get(draft).value_or(Value{}));
}

}  // namespace tessera::config

#include "config/manual.h"

#include <fmt/format.h>

#include "config/fields.h"
#include "config/foreign_names.h"
#include "config/wrapped.h"

namespace tessera::config {
namespace {

// Text for a cell of a table.
std::string cell(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '|' || c == '*') out += '\\';
    out += c;
  }
  return out;
}

constexpr std::size_t line_width = 120;

// An asterisk of a text would make the words after it bold.
std::string plain(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '*') out += '\\';
    out += c;
  }
  return out;
}

std::string default_of(const Field& field) {
  if (field.role == FieldRole::spelling) return "another spelling";
  if (!field.absent.empty()) return "default: " + plain(field.absent);
  return fmt::format("default `{}`", to_text(field.default_value().value_or(Value{})));
}

std::string item_of(const Field& field) {
  std::string facts = field.type_name();
  if (const std::string range = field.range_text(); !range.empty()) facts += ", " + range;
  std::string text = plain(field.help);
  if (!field.not_yet.empty()) text += fmt::format(" (Not yet: {}.)", field.not_yet);
  text += fmt::format(" Changes: {}.", plain(field.observe));
  return fmt::format("- `{}`: {}; {}.\n", field.path, plain(facts), default_of(field)) + wrapped(text, 2, line_width);
}

std::string foreign_rows() {
  std::string out = "| name | accepted values | reason |\n| --- | --- | --- |\n";
  for (const ForeignName& name : foreign_names()) {
    std::string accepted = "none";
    if (!name.harmless.empty())
      accepted = name.harmless[0] == "*" ? "any" : fmt::format("{}", fmt::join(name.harmless, ", "));
    out += fmt::format("| `{}` | {} | {} |\n", name.pattern, cell(accepted), cell(name.reason));
  }
  return out;
}

}  // namespace

std::string manual_page() {
  std::string out =
      "# Settings\n\n"
      "Generated: `build/bin/tessera-train --manual > lib/config/README.md` (a test compares the two).\n\n"
      "In a settings file the parts of a name are nested objects. On the command line, write `--name value`, for a "
      "list\n"
      "(`...`) `--name value value`, and for the empty list `--name []`. The page gives of each setting its type and\n"
      "default, its meaning, and the visible effect of another value (*Changes*).\n";
  std::string group;
  for (const Field& field : fields()) {
    if (field.group != group) {
      group = field.group;
      out += fmt::format("\n## {}\n", group);
    }
    out += item_of(field);
  }
  out += "\n## Other spellings of whole sections\n| spelling | setting |\n| --- | --- |\n";
  for (const SectionSpelling& spelling : section_spellings())
    out += fmt::format("| `{}*` | `{}*` |\n", spelling.spelled, spelling.canonical);
  out +=
      "\n## VeOmni's names without a meaning here\nAn accepted value has no effect, and a notice says so; any other is "
      "refused.\n\n";
  return out + foreign_rows();
}

}  // namespace tessera::config

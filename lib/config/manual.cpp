#include "config/manual.h"

#include <fmt/format.h>

#include "config/fields.h"
#include "config/foreign_names.h"

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

std::string default_cell(const Field& field) {
  if (field.role == FieldRole::spelling) return "";
  if (!field.absent.empty()) return cell(field.absent);
  return fmt::format("`{}`", to_text(field.default_value().value_or(Value{})));
}

std::string row_of(const Field& field) {
  std::string type = field.type_name();
  if (const std::string range = field.range_text(); !range.empty()) type += ", " + range;
  std::string help = field.help;
  if (field.role == FieldRole::spelling) help += " (Another spelling.)";
  if (!field.not_yet.empty()) help += fmt::format(" (Not yet: {}.)", field.not_yet);
  return fmt::format("| `{}` | {} | {} | {} | {} |\n", field.path, cell(type), default_cell(field), cell(help),
                     cell(field.observe));
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
      "Generated: `build/bin/tessera-train --manual > lib/config/README.md` (a test compares the two). In a settings "
      "file the parts of a name are nested objects. On the command line, write `--name value`, for a list (`...`) "
      "`--name value value`, and for the empty list `--name []`.\n";
  std::string group;
  for (const Field& field : fields()) {
    if (field.group != group) {
      group = field.group;
      out += fmt::format(
          "\n## {}\n| setting | type | default | meaning | what changes |\n| --- | --- | --- | --- | --- |\n", group);
    }
    out += row_of(field);
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

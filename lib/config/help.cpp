#include "config/help.h"

#include <fmt/format.h>

#include "config/fields.h"
#include "config/wrapped.h"

namespace tessera::config {
namespace {

constexpr std::size_t line_width = 100;

std::string facts(const Field& field) {
  std::string text;
  if (field.role == FieldRole::spelling)
    text = "another spelling";
  else if (!field.absent.empty())
    text = "default: " + field.absent;
  else
    text = "default " + to_text(field.default_value().value_or(Value{}));
  if (const std::string range = field.range_text(); !range.empty()) text += ", " + range;
  if (!field.not_yet.empty()) text += "; not yet: " + field.not_yet;
  return text;
}

constexpr const char* usage = R"(tessera-train: trains Qwen3-MoE-style language models.

Usage: tessera-train [SETTINGS.json ...] [--path.to.setting VALUE ...]
       mpirun -n N tessera-train ...

Settings files are JSON (comments allowed), nested as the names below; a later file overrides an earlier one, and the
command line overrides both. Files come before list options, which take every word that follows: --x a b c;
--x [] is the empty list. Booleans are true, false, 1 or 0. A setting that may be absent takes null.

  --help, -h            this text
  --manual              every setting as a Markdown page
  --print-settings      the resolved settings as JSON, then stop
  --dry-run             resolved settings, parameters, the program of one step, memory by purpose; then stop
  --rank N              with --dry-run: the rank whose program is printed (default 0)

Exit codes: 0 done, 2 bad input, 3 stopped by non-finite numbers, 4 a rank, a collective or a last output failed,
129, 130 or 143 stopped by SIGHUP, SIGINT or SIGTERM after a whole step.
)";

}  // namespace

std::string help_text() {
  std::string out = usage;
  std::string group;
  for (const Field& field : fields()) {
    if (field.group != group) {
      group = field.group;
      out += fmt::format("\n{}:\n", group);
    }
    out += fmt::format("  --{} {}\n", field.path, field.type_name());
    out += wrapped(fmt::format("{} ({})", field.help, facts(field)), 6, line_width);
  }
  out += "\nOther spellings of whole sections:\n";
  for (const SectionSpelling& spelling : section_spellings())
    out += fmt::format("  --{}* for --{}*\n", spelling.spelled, spelling.canonical);
  return out;
}

}  // namespace tessera::config

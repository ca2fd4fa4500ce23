#include "config/command_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string_view>

#include "base/error.h"
#include "base/nearest.h"
#include "config/json_reader.h"
#include "config/merge.h"
#include "config/validate.h"

namespace tessera::config {
namespace {

// One `--name value ...` as it stands.
struct Option {
  std::string name;  // without "--"
  std::vector<std::string> words;
};

struct Words {
  std::vector<std::string> files;
  std::vector<Option> options;
};

enum class Takes { nothing, one, many };

const std::string rank_option = "rank";
const std::vector<std::string> flags{"help", "manual", "print-settings", "dry-run"};

bool is_flag(std::string_view name) { return std::find(flags.begin(), flags.end(), name) != flags.end(); }

// Unknown options take all words that follow, so that none of them passes for a file.
Takes takes(const std::string& name) {
  if (is_flag(name)) return Takes::nothing;
  if (name == rank_option) return Takes::one;
  const Field* field = find_field(name);
  return field != nullptr && !is_list(field->form.kind) ? Takes::one : Takes::many;
}

Words split(int argc, const char* const* argv) {
  Words out;
  Takes open = Takes::nothing;  // what the last option still takes
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word.starts_with("--") && word.size() > 2) {
      const std::size_t equals = word.find('=');
      Option option{std::string(word.substr(2, equals == std::string_view::npos ? equals : equals - 2)), {}};
      open = takes(option.name);
      if (equals != std::string_view::npos) {
        option.words.emplace_back(word.substr(equals + 1));
        if (open == Takes::one) open = Takes::nothing;
      }
      out.options.push_back(std::move(option));
    } else if (open != Takes::nothing) {
      out.options.back().words.emplace_back(word);
      if (open == Takes::one) open = Takes::nothing;
    } else {
      out.files.emplace_back(word);
    }
  }
  return out;
}

class Reader {
 public:
  CommandLine read(const Words& words, const FurtherRules& further) {
    for (const std::string& file : words.files) read_file(file);
    Source source;
    for (const Option& option : words.options) read_option(option, source);
    take(source);
    out_.settings = resolve(draft_, problems_);
    if (rank_given_ && out_.action != Action::dry_run) problems_.add("--rank needs --dry-run");
    const Verdict verdict = validate(out_.settings, out_.action, problems_);
    if (further && verdict == Verdict::complete) further(out_.settings, out_.action, problems_);
    check_rank();
    problems_.throw_if_any("settings");
    return std::move(out_);
  }

 private:
  void take(const Source& source) {
    merge(source, draft_, problems_);
    out_.notices.insert(out_.notices.end(), source.notices.begin(), source.notices.end());
  }

  void read_file(const std::string& file) {
    if (file.starts_with('-'))
      problems_.add("unknown option {}; settings are spelled --path.to.setting value, see --help", file);
    else
      take(read_settings_file(file, problems_));
  }

  void read_option(const Option& option, Source& source) {
    if (is_flag(option.name)) return read_flag(option);
    if (option.name == rank_option) return read_rank(option);
    const Field* field = find_field(option.name);
    if (field == nullptr) return read_unknown(option, source);
    if (option.words.empty()) {
      problems_.add("--{} has no value; give {}", option.name, field->type_name());
      return;
    }
    Reading reading = read_words(field->form, option.words);
    if (reading.value)
      source.assignments.push_back({field, "--" + option.name, "command line", std::move(*reading.value)});
    else
      problems_.add("--{}{}{}", option.name, reading.problem.starts_with('[') ? "" : " ", reading.problem);
  }

  void read_unknown(const Option& option, Source& source) {
    const std::string value = fmt::format("{}", fmt::join(option.words, " "));
    if (note_foreign(option.name, value, "command line", source, problems_)) return;
    if (is_section(option.name)) {
      problems_.add("--{} is a section; give one of its settings, see --help", option.name);
      return;
    }
    std::vector<std::string> names = known_names();
    names.insert(names.end(), flags.begin(), flags.end());
    std::optional<std::string> near = base::nearest_name(option.name, names);
    problems_.add("unknown option --{}{}", option.name,
                  near ? fmt::format("; did you mean --{}?", *near) : "; see --help");
  }

  void read_flag(const Option& option) {
    if (!option.words.empty()) problems_.add("--{} takes no value", option.name);
    const Action action = option.name == "dry-run" ? Action::dry_run : Action::print_settings;
    if (out_.action == action) problems_.add("--{} is given twice", option.name);
    if (out_.action != Action::train && out_.action != action)
      problems_.add("--dry-run and --print-settings exclude each other; give one of them");
    out_.action = action;
  }

  void read_rank(const Option& option) {
    if (rank_given_) problems_.add("--rank is given twice");
    rank_given_ = true;
    const Form form{.kind = Kind::integer, .range = count_from(0)};
    if (option.words.empty()) return problems_.add(std::string("--rank has no value; give an integer"));
    const Reading reading = read_words(form, option.words);
    if (reading.value)
      out_.rank = std::get<std::int64_t>(*reading.value);
    else
      problems_.add("--rank {}", reading.problem);
  }

  void check_rank() {
    const std::int64_t world = out_.settings.train.accelerator.world_size;
    if (world > 0 && out_.rank >= world)
      problems_.add("--rank = {} is no rank of train.accelerator.world_size = {}; give 0 to {}", out_.rank, world,
                    world - 1);
  }

  CommandLine out_;
  Draft draft_;
  base::Problems problems_;
  bool rank_given_ = false;
};

}  // namespace

CommandLine read_command_line(int argc, const char* const* argv, const FurtherRules& further) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--help" || word == "-h") return {.settings = {}, .action = Action::help, .rank = 0, .notices = {}};
    if (word == "--manual") return {.settings = {}, .action = Action::manual, .rank = 0, .notices = {}};
  }
  return Reader().read(split(argc, argv), further);
}

}  // namespace tessera::config

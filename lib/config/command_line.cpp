#include "config/command_line.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <charconv>
#include <string_view>

#include "base/error.h"
#include "base/nearest.h"
#include "config/fields.h"
#include "config/json_reader.h"
#include "config/merge.h"
#include "config/validate.h"

namespace tessera::config {
namespace {

// One `--name value ...`, not interpreted yet.
struct Option {
  std::string name;  // without "--"
  std::vector<std::string> words;
  std::size_t times = 1;
};

struct Words {
  std::vector<std::string> files;
  std::vector<Option> options;
};

const std::string rank_option = "rank";
const std::vector<std::string> flags{"help", "manual", "print-settings", "dry-run"};

bool is_flag(std::string_view name) { return std::find(flags.begin(), flags.end(), name) != flags.end(); }

// CLI11 only splits the line. The field table interprets the words and reports every problem, where CLI11 would stop at
// the first one; so no option requires a word. A list has a limit of words that no line reaches: without a limit CLI11
// reads brackets itself, and drops `[]`.
void add_option(CLI::App& app, const std::string& name) {
  const Field* field = find_field(name);
  const bool is_many = field != nullptr && is_list(field->form.kind);
  constexpr int words_of_a_list = 1 << 24;
  const int most = is_flag(name) ? 0 : is_many ? words_of_a_list : 1;
  app.add_option("--" + name)->expected(0, most)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

// Sorts the words that CLI11 does not know, in their order: files at first; an unknown option takes all words after it
// up to the next.
void add_unknown(const std::vector<std::string>& words, Words& out) {
  bool is_open = false;
  for (const std::string& word : words) {
    if (word.starts_with("--") && word.size() > 2) {
      const std::size_t equals = word.find('=');
      out.options.push_back({word.substr(2, equals == std::string::npos ? equals : equals - 2), {}});
      if (equals != std::string::npos) out.options.back().words.push_back(word.substr(equals + 1));
      is_open = true;
    } else if (is_open) {
      out.options.back().words.push_back(word);
    } else {
      out.files.push_back(word);
    }
  }
}

Words split(int argc, const char* const* argv) {
  CLI::App app;
  app.allow_extras();
  app.set_help_flag();
  for (const std::string& name : known_names()) add_option(app, name);
  for (const std::string& name : flags) add_option(app, name);
  add_option(app, rank_option);
  std::vector<std::string> reversed(argv + 1, argv + argc);
  std::reverse(reversed.begin(), reversed.end());
  app.parse(reversed);
  Words out;
  for (const CLI::Option* option : app.get_options([](const CLI::Option* o) { return o->count() > 0; })) {
    Option given{option->get_lnames().front(), option->results()};
    std::erase(given.words, "");  // stands for no word at all
    // CLI11 joins the words of an option that is given twice.
    const std::string word = "--" + given.name;
    given.times = static_cast<std::size_t>(std::count_if(
        argv + 1, argv + argc, [&](std::string_view w) { return w == word || w.starts_with(word + "="); }));
    out.options.push_back(std::move(given));
  }
  add_unknown(app.remaining(), out);
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
    const Verdict verdict = validate(out_.settings, out_.action, content_, problems_);
    if (further && verdict == Verdict::complete) further(out_.settings, out_.action, problems_);
    check_rank();
    problems_.throw_if_any("settings");
    return std::move(out_);
  }

 private:
  void take(const Source& source) {
    if (source.content == Content::other) content_ = Content::other;
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
    if (option.times > 1) {
      problems_.add("--{} is given twice; keep one of them", option.name);
      return;
    }
    if (is_flag(option.name)) return read_flag(option);
    if (option.name == rank_option) return read_rank(option);
    const Field* field = find_field(option.name);
    if (field == nullptr) return read_unknown(option, source);
    if (option.words.empty()) {
      problems_.add("--{} has no value; give {}{}", option.name, field->type_name(),
                    is_list(field->form.kind) ? ", or [] for the empty list" : "");
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
    if (out_.action != Action::train && out_.action != action)
      problems_.add("--dry-run and --print-settings exclude each other; give one of them");
    out_.action = action;
  }

  void read_rank(const Option& option) {
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
  Content content_ = Content::settings;  // other: of at least one file
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

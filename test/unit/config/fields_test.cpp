// If this failed, a setting would be missing from one of its views, or change nothing.
#include "config/fields.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "config/dump.h"
#include "config/foreign_names.h"
#include "config/help.h"
#include "config/manual.h"
#include "support/catch.h"
#include "unit/config/read.h"

namespace tessera::config {
namespace {

using Catch::Matchers::ContainsSubstring;
using test::problems_of_line;
using test::read_line;
using test::training;

std::vector<std::string> joined(std::vector<std::string> a, const std::vector<std::string>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// `--path value ...` of a row's example, with what it needs beside it.
std::vector<std::string> flip(const Field& field) {
  std::vector<std::string> words{"--" + field.path};
  return joined(joined(words, field.example), field.beside);
}

// The training line without what the flipped row or its companions give themselves.
std::vector<std::string> base_for(const Field& field) {
  std::vector<std::string> words;
  if (field.path != "model.config_path") words = {"--model.config_path", "hf/config.json"};
  if (field.path != "data.train_path") words = joined(words, {"--data.train_path", "train.txt"});
  return words;
}

TEST_CASE("every row says what it is, costs and shows") {
  std::set<std::string> paths;
  for (const Field& field : fields()) {
    CAPTURE(field.path);
    CHECK(paths.insert(field.path).second);
    CHECK_FALSE(field.help.empty());
    CHECK(field.help.back() == '.');
    CHECK_FALSE(field.observe.empty());
    CHECK_FALSE(field.group.empty());
    CHECK_FALSE(field.example.empty());
    if (field.form.kind != Kind::integer) CHECK((field.form.kind == Kind::word) == !field.form.words.empty());
    CHECK((field.form.absence == Absence::allowed) == !field.absent.empty());
    CHECK(find_field(field.path) == &field);
    CHECK(find_foreign(field.path) == nullptr);
  }
}

TEST_CASE("rows of one section stand together") {
  std::set<std::string> left;
  std::string last;
  for (const Field& field : fields()) {
    const std::string section = field.path.substr(0, field.path.find('.'));
    if (section == last) continue;
    CHECK(left.insert(section).second);
    last = section;
  }
}

TEST_CASE("--help and the manual name every row, with its default and its words") {
  const std::string help = help_text();
  const std::string manual = manual_page();
  for (const Field& field : fields()) {
    CAPTURE(field.path);
    CHECK_THAT(help, ContainsSubstring("  --" + field.path + " " + field.type_name() + "\n"));
    CHECK_THAT(manual, ContainsSubstring("\n- `" + field.path + "`: "));
  }
  CHECK_THAT(help, ContainsSubstring("default 5e-05, at least 0"));
  CHECK_THAT(help, ContainsSubstring("not yet: offload"));
  for (const ForeignName& name : foreign_names()) CHECK_THAT(manual, ContainsSubstring("| `" + name.pattern + "` | "));
}

TEST_CASE("lib/config/README.md is the manual of this program") {
  std::ifstream page(TESSERA_SOURCE_DIR "/lib/config/README.md");
  const std::string text{std::istreambuf_iterator<char>(page), {}};
  // Were it not: build/bin/tessera-train --manual > lib/config/README.md
  CHECK((text == manual_page()));
}

TEST_CASE("no line of --help is longer than 120 characters, and none of the manual longer than 160") {
  for (const auto& [text, longest] : {std::pair{help_text(), 120U}, std::pair{manual_page(), 160U}}) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      CAPTURE(line);
      CHECK(line.size() <= longest);
    }
  }
}

TEST_CASE("the dump holds every setting, in the order of the table") {
  const std::string text = dump_settings(Settings{});
  const nlohmann::ordered_json dump = nlohmann::ordered_json::parse(text);

  for (const Field& field : fields()) {
    CAPTURE(field.path);
    std::string pointer = "/" + field.path;
    std::replace(pointer.begin(), pointer.end(), '.', '/');
    const bool there = dump.contains(nlohmann::ordered_json::json_pointer(pointer));
    CHECK(there == (field.role == FieldRole::setting));
  }
}

// A value of a row other than its default: the tree and the dump differ, and the dump reads back to the same tree.
TEST_CASE("every row flipped off its default changes the settings or is refused with a reason") {
  const std::string before = dump_settings(test::read_training());
  for (const Field& field : fields()) {
    CAPTURE(field.path);
    const std::vector<std::string> line = joined(base_for(field), flip(field));
    if (!field.not_yet.empty()) {
      CHECK_THAT(problems_of_line(line), ContainsSubstring("not yet built: " + field.not_yet));
      continue;
    }
    if (field.path == "train.accelerator.fsdp_config.mixed_precision.reduce_dtype") {
      CHECK_THAT(problems_of_line(line), ContainsSubstring("is none of: float32"));
      continue;
    }
    REQUIRE(problems_of_line(line).empty());
    const Settings settings = read_line(line).settings;
    const std::string dump = dump_settings(settings);
    CHECK(dump != before);
    const test::ReadText again = test::read_text(dump);
    CHECK(again.problems.empty());
    CHECK(dump_settings(again.settings) == dump);
    if (field.role == FieldRole::setting) {
      Draft draft;
      draft.settings = settings;
      CHECK(field.get(draft) == read_words(field.form, field.example).value);
    }
  }
}

TEST_CASE("the JSON reader and the command line give the same value for every row") {
  for (const Field& field : fields()) {
    CAPTURE(field.path);
    const Reading word = read_words(field.form, field.example);
    if (!word.value) continue;  // an example that shows a refusal
    nlohmann::json tree;
    std::string pointer = "/" + field.path;
    std::replace(pointer.begin(), pointer.end(), '.', '/');
    tree[nlohmann::json::json_pointer(pointer)] = to_json(*word.value);
    base::Problems problems;
    const auto document = base::parse_json(tree.dump(), "settings.json", base::JsonComments::allowed);
    const Source source = read_settings(document, problems);
    CHECK(problems.empty());
    REQUIRE(source.assignments.size() == 1);
    CHECK(source.assignments[0].field == &field);
    CHECK(source.assignments[0].value == *word.value);
  }
}

TEST_CASE("a row without its example's companions never passes in silence") {
  for (const Field& field : fields()) {
    if (field.beside.empty() || !field.not_yet.empty()) continue;
    if (field.path.starts_with("train.accelerator.extra_parallel_")) continue;  // the layout's rule, tested there
    CAPTURE(field.path);
    const std::vector<std::string> line = joined(joined(base_for(field), {"--" + field.path}), field.example);
    // Held-out data alone is evaluated once, at the end.
    if (field.path == "data.eval_path")
      CHECK(problems_of_line(line).empty());
    else
      CHECK_FALSE(problems_of_line(line).empty());
  }
}

TEST_CASE("value_text shows one setting") {
  Settings settings;
  CHECK(value_text(settings, "train.precision") == "auto");
  CHECK(value_text(settings, "train.max_steps") == "none");
  CHECK(value_text(settings, "train.optimizer.betas") == "0.9 0.95");
  settings.train.precision = Precision::float64;
  CHECK(value_text(settings, "train.precision") == "float64");
}

// The fields of VeOmniArguments and of its parts in veomni/arguments/arguments_types.py of the PyPI package veomni
// 0.1.12.
TEST_CASE("every setting of VeOmni 0.1.12 is a setting here, or answered with a reason") {
  std::ifstream names(TESSERA_SOURCE_DIR "/test/unit/config/veomni_0_1_12_names.txt");
  int count = 0;
  for (std::string name; std::getline(names, name); ++count) {
    CAPTURE(name);
    // model.model_config is the section of config.json's keys.
    const bool known = find_field(name) != nullptr || find_foreign(name) != nullptr || is_section(name);
    CHECK(known);
  }
  CHECK(count == 164);
}

TEST_CASE("no name of VeOmni's is a setting of Tessera, and each is listed once") {
  std::set<std::string> patterns;
  for (const ForeignName& name : foreign_names()) {
    CAPTURE(name.pattern);
    CHECK(patterns.insert(name.pattern).second);
    CHECK_FALSE(name.reason.empty());
    CHECK(find_field(name.pattern) == nullptr);
    if (!name.pattern.ends_with(".*")) CHECK(find_foreign(name.pattern) == &name);
  }
}

}  // namespace
}  // namespace tessera::config

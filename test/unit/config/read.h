// Shared by the tests of this folder: reads command lines and settings from strings.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "config/command_line.h"
#include "config/json_reader.h"

namespace tessera::config::test {

inline CommandLine read_line(const std::vector<std::string>& words) {
  std::vector<const char*> argv{"tessera-train"};
  for (const std::string& word : words) argv.push_back(word.c_str());
  return read_command_line(static_cast<int>(argv.size()), argv.data());
}

// Returns the message of the error, or an empty text.
inline std::string problems_of_line(const std::vector<std::string>& words) {
  try {
    static_cast<void>(read_line(words));
    return {};
  } catch (const base::Error& error) {
    return error.what();
  }
}

// Returns a command line that trains, followed by `words`.
inline std::vector<std::string> training(const std::vector<std::string>& words = {}) {
  std::vector<std::string> line{"--model.config_path", "hf/config.json", "--data.train_path", "train.txt"};
  line.insert(line.end(), words.begin(), words.end());
  return line;
}

inline Settings read_training(const std::vector<std::string>& words = {}) {
  return read_line(training(words)).settings;
}

struct ReadText {
  Settings settings;
  std::string problems;  // one per line
  std::vector<std::string> notices;
};

// Reads a settings file with this text, without a command line.
inline ReadText read_text(const std::string& text) {
  base::Problems problems;
  const base::JsonDocument document = base::parse_json(text, "settings.json", base::JsonComments::allowed);
  const Source source = read_settings(document, problems);
  Draft draft;
  merge(source, draft, problems);
  ReadText out{resolve(draft, problems), {}, source.notices};
  for (const std::string& problem : problems.list()) out.problems += problem + "\n";
  return out;
}

}  // namespace tessera::config::test

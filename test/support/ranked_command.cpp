#include "support/ranked_command.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <thread>

namespace tessera::test {
namespace {

std::string text_of(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<pid_t> children_of(pid_t process) {
  const auto folder = std::filesystem::path("/proc") / std::to_string(process);
  std::istringstream words(text_of(folder / "task" / folder.filename() / "children"));
  return {std::istream_iterator<pid_t>(words), {}};
}

}  // namespace

const std::map<std::string, std::string>& mpi_environment() {
  // For a build with the address sanitizer: Open MPI keeps memory until the process ends, which is no leak of ours.
  static const std::map<std::string, std::string> environment{{"OMPI_ALLOW_RUN_AS_ROOT", "1"},
                                                              {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
                                                              {"OMPI_MCA_rmaps_base_oversubscribe", "1"},
                                                              {"OMPI_MCA_hwloc_base_binding_policy", "none"},
                                                              {"OMPI_MCA_btl_vader_single_copy_mechanism", "none"},
                                                              {"ASAN_OPTIONS", "detect_leaks=0"}};
  return environment;
}

std::vector<std::string> mpirun(int ranks, const std::vector<std::string>& options) {
  std::vector<std::string> words{MPIRUN, "-n", std::to_string(ranks)};
  words.insert(words.end(), options.begin(), options.end());
  return words;
}

Finished run_ranks(int ranks, const std::vector<std::string>& words, const std::vector<std::string>& options) {
  auto line = mpirun(ranks, options);
  line.emplace_back(TESSERA_TRAIN);
  line.insert(line.end(), words.begin(), words.end());
  return run_command(line, mpi_environment());
}

pid_t process_of_rank(const Command& mpirun, int rank) {
  using namespace std::string_literals;
  for (const pid_t child : children_of(mpirun.process())) {
    const auto environment = "\0"s + text_of("/proc/" + std::to_string(child) + "/environ");
    if (environment.find("\0OMPI_COMM_WORLD_RANK="s + std::to_string(rank) + "\0"s) != std::string::npos) return child;
  }
  return -1;
}

bool wait_for_lines(const Command& mpirun, const std::string& file, std::int64_t lines) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (std::chrono::steady_clock::now() < end && mpirun.is_running()) {
    const auto text = text_of(file);
    if (std::count(text.begin(), text.end(), '\n') >= lines) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return false;
}

}  // namespace tessera::test

#include "train/command.h"

#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <optional>
#include <string>

#include "base/file_size_limit.h"
#include "base/log.h"
#include "comm/agreement.h"
#include "comm/launch.h"
#include "comm/same_on_all.h"
#include "comm/spokesman.h"
#include "comm/world.h"
#include "config/command_line.h"
#include "config/dump.h"
#include "config/help.h"
#include "config/manual.h"
#include "layout/layout.h"
#include "train/dry_run.h"
#include "train/signals.h"
#include "train/training_run.h"

namespace tessera::train {

namespace {

void print(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

base::LogLevel log_level(config::LogLevel level) {
  switch (level) {
    case config::LogLevel::debug: return base::LogLevel::debug;
    case config::LogLevel::info: return base::LogLevel::info;
    case config::LogLevel::warning: return base::LogLevel::warning;
    case config::LogLevel::error: return base::LogLevel::error;
  }
  base::expect(false, "no such log level: {}", static_cast<int>(level));
  return {};
}

// What is printed: by rank 0 alone. Error if it cannot be made.
std::string page_of(const config::CommandLine& command, const comm::Launch& launch) {
  using config::Action;
  switch (command.action) {
    case Action::help: return config::help_text();
    case Action::manual: return config::manual_page();
    case Action::print_settings: return config::dump_settings(command.settings);
    case Action::dry_run: {
      const auto asked = command.settings.train.accelerator.world_size;
      return dry_run(command.settings, asked > 0 ? asked : launch.ranks, command.rank);
    }
    case Action::train: break;
  }
  base::expect(false, "action {} prints no page", static_cast<int>(command.action));
  return {};
}

// The command line, or why it cannot be followed.
struct Asked {
  config::CommandLine command;
  std::optional<comm::Failure> failure;
};

// Collective over the world: an error of any rank is every rank's, and told once.
base::ExitCode act(const Asked& asked, const comm::Launch& launch, comm::World& world, const StopSignals& signals) {
  auto& ranks = *world.communicator();
  comm::agree(ranks, asked.failure);
  comm::require_same_on_all(ranks, {{"the action", fmt::format("{}", static_cast<int>(asked.command.action))}});
  if (asked.command.action == config::Action::train) return run(asked.command.settings, world, signals);
  comm::agree_on(ranks, [&] {
    if (launch.rank == 0) print(page_of(asked.command, launch));
  });
  return base::ExitCode::done;
}

base::ExitCode act_in_world(const Asked& asked, const comm::Launch& launch) {
  const StopSignals signals(StopSignals::Afterwards::ignored);
  comm::World world(launch, {.timeout_s = asked.command.settings.train.accelerator.timeout_s});
  return world.run([&] { return act(asked, launch, world, signals); });
}

// Which groups fit the ranks that there are (--print-settings is not about any number of ranks).
void check_layout(const config::Settings& settings, config::Action action, std::int64_t ranks,
                  base::Problems& problems) {
  const auto& accelerator = settings.train.accelerator;
  if (action == config::Action::print_settings) return layout::check_extra_parallels(accelerator, problems);
  const auto asked = accelerator.world_size;
  static_cast<void>(layout::resolve_sizes(accelerator, asked > 0 ? asked : ranks, problems));
}

Asked read(int argc, const char* const* argv, const comm::Launch& launch) {
  const auto rules = [&](const config::Settings& settings, config::Action action, base::Problems& problems) {
    check_layout(settings, action, launch.ranks, problems);
  };
  Asked asked;
  try {
    asked.command = config::read_command_line(argc, argv, rules);
  } catch (...) {
    asked.failure = comm::describe_failure(std::current_exception());
    return asked;
  }
  base::set_log(log_level(asked.command.settings.train.log.level), launch.rank == 0);
  for (const auto& notice : asked.command.notices) base::log_warning("{}", notice);
  return asked;
}

}  // namespace

int run_command(int argc, const char* const* argv) {
  base::let_writes_fail_at_limit();
  const auto launch = comm::read_launch();
  base::set_log(base::LogLevel::info, launch.rank == 0);
  try {
    const auto asked = read(argc, argv, launch);
    const bool trains = !asked.failure && asked.command.action == config::Action::train;
    const bool is_one_of_several = launch.launcher == comm::Launcher::open_mpi && launch.ranks > 1;
    if (trains || is_one_of_several) return static_cast<int>(act_in_world(asked, launch));
    if (asked.failure) throw base::Error(asked.failure->code, asked.failure->message);
    if (launch.rank == 0) print(page_of(asked.command, launch));
    return static_cast<int>(base::ExitCode::done);
  } catch (...) {
    const auto failure = comm::describe_failure(std::current_exception());
    comm::log_failed_start(launch, failure);
    return static_cast<int>(failure.code);
  }
}

}  // namespace tessera::train

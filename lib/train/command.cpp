#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <exception>
#include <thread>

#include "base/file_size_limit.h"
#include "base/log.h"
#include "comm/agreement.h"
#include "comm/launch.h"
#include "comm/world.h"
#include "config/command_line.h"
#include "config/dump.h"
#include "config/help.h"
#include "config/manual.h"
#include "fsdp/torch_failure.h"
#include "layout/layout.h"
#include "train/run.h"
#include "train/signals.h"

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

base::ExitCode train_in_world(const config::Settings& settings, const comm::Launch& launch) {
  const StopSignals signals(StopSignals::Afterwards::ignored);
  comm::World world(launch, {.timeout_s = settings.train.accelerator.timeout_s});
  return world.run([&] { return run(settings, world, signals); }, fsdp::describe_failure);
}

base::ExitCode act(const config::CommandLine& command, const comm::Launch& launch) {
  using config::Action;
  const bool speaks = launch.rank == 0;
  base::set_log(log_level(command.settings.train.log.level), speaks);
  for (const auto& notice : command.notices) base::log_warning("{}", notice);
  switch (command.action) {
    case Action::help:
      if (speaks) print(config::help_text());
      return base::ExitCode::done;
    case Action::manual:
      if (speaks) print(config::manual_page());
      return base::ExitCode::done;
    case Action::print_settings:
      if (speaks) print(config::dump_settings(command.settings));
      return base::ExitCode::done;
    case Action::dry_run: {
      const auto asked = command.settings.train.accelerator.world_size;
      if (speaks) print(dry_run(command.settings, asked > 0 ? asked : launch.ranks, command.rank));
      return base::ExitCode::done;
    }
    case Action::train: return train_in_world(command.settings, launch);
  }
  base::expect(false, "no such action: {}", static_cast<int>(command.action));
  return {};
}

// Which groups fit the ranks that there are (--print-settings is not about any number of ranks).
void check_layout(const config::Settings& settings, config::Action action, std::int64_t ranks,
                  base::Problems& problems) {
  const auto& accelerator = settings.train.accelerator;
  if (action == config::Action::print_settings) return layout::check_extra_parallels(accelerator, problems);
  const auto asked = accelerator.world_size;
  static_cast<void>(layout::resolve_sizes(accelerator, asked > 0 ? asked : ranks, problems));
}

// Under mpirun an error that all ranks see is rank 0's to print; its exit ends the job. A rank that still lives after a
// while saw it alone, and says which it is.
std::string let_rank_0_speak(const comm::Launch& launch) {
  if (launch.launcher != comm::Launcher::open_mpi || launch.rank == 0) return {};
  std::this_thread::sleep_for(std::chrono::seconds(3));
  return fmt::format("rank {}: ", launch.rank);
}

}  // namespace

int run_command(int argc, const char* const* argv) {
  base::let_writes_fail_at_limit();
  const auto launch = comm::read_launch();
  base::set_log(base::LogLevel::info, launch.rank == 0);
  try {
    const auto rules = [&](const config::Settings& settings, config::Action action, base::Problems& problems) {
      check_layout(settings, action, launch.ranks, problems);
    };
    return static_cast<int>(act(config::read_command_line(argc, argv, rules), launch));
  } catch (...) {
    const auto failure = fsdp::describe_failure(std::current_exception());
    const auto speaker = failure.code == base::ExitCode::bad_input ? let_rank_0_speak(launch) : std::string();
    base::log_error("{}{}", speaker, failure.message);
    return static_cast<int>(failure.code);
  }
}

}  // namespace tessera::train

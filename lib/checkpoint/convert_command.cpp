#include "checkpoint/convert_command.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <charconv>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/file_size_limit.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/quantity.h"
#include "checkpoint/float_type.h"
#include "checkpoint/folder.h"
#include "checkpoint/huggingface.h"
#include "checkpoint/huggingface_import.h"
#include "checkpoint/huggingface_writer.h"
#include "checkpoint/inspection.h"
#include "checkpoint/manifest.h"
#include "comm/agreement.h"
#include "comm/launch.h"
#include "comm/same_on_all.h"
#include "comm/spokesman.h"
#include "comm/world.h"

namespace tessera::checkpoint {
namespace {

struct Words {
  std::string source, target, inspected;
  std::string dtype, experts, max_shard_size, config;  // empty: not given
};

enum class SourceKind { checkpoint, huggingface };

void print(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

// Reads a size with a decimal or a binary unit: "5GB", "300 MiB", "1000".
std::uint64_t bytes_of(const std::string& text) {
  struct Unit {
    std::string_view name;
    std::uint64_t bytes;
  };
  constexpr Unit units[] = {
      {"", 1},          {"B", 1},         {"KB", 1'000},   {"MB", 1'000'000}, {"GB", 1'000'000'000},
      {"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}};
  std::uint64_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  auto unit = std::string_view(end, text.data() + text.size());
  while (unit.starts_with(' ')) unit.remove_prefix(1);
  for (const auto& u : units)
    if (error == std::errc{} && u.name == unit && count > 0 &&
        count <= std::numeric_limits<std::int64_t>::max() / u.bytes)
      return count * u.bytes;
  base::fail(
      "--max-shard-size {} is not a size; give a whole number above 0 with B, KB, MB, GB, KiB, MiB or GiB, such as 5GB",
      text);
}

std::optional<ElementType> type_of(const std::string& word) {
  if (word.empty()) return std::nullopt;
  const auto type = float_type_called(word);
  base::require(type.has_value(), "--dtype {} is not a type; give float32, bfloat16, float16 or float64", word);
  return type;
}

ExpertForm form_of(const std::string& word) {
  base::require(word.empty() || word == "separate" || word == "fused",
                "--experts {} is unknown; give separate (one tensor per expert) or fused (gate_up_proj, down_proj)",
                word);
  return word == "fused" ? ExpertForm::fused : ExpertForm::separate;
}

SourceKind kind_of(const base::Path& source) {
  std::error_code ignored;
  base::require(std::filesystem::exists(source, ignored), "{} is not there", source.string());
  if (std::filesystem::exists(source / manifest_name, ignored)) return SourceKind::checkpoint;
  if (is_huggingface_checkpoint(source)) return SourceKind::huggingface;
  base::require(std::filesystem::is_directory(source, ignored) && !list_checkpoints(source).whole.empty(),
                "{} is neither a checkpoint (manifest.json), nor the output folder of a run with a checkpoint in it, "
                "nor HuggingFace's (model.safetensors or model.safetensors.index.json)",
                source.string());
  return SourceKind::checkpoint;
}

// Collective over `world`. Throws unless all ranks have the same command line and read the same source on their hosts.
void require_same_conversion(const Words& words, SourceKind kind, comm::Communicator& world) {
  std::vector<comm::Fact> facts;
  comm::agree_on(world, [&] {
    facts = {{"SOURCE", words.source},  {"TARGET", words.target},     {"--inspect", words.inspected},
             {"--dtype", words.dtype},  {"--experts", words.experts}, {"--max-shard-size", words.max_shard_size},
             {"--config", words.config}};
    const base::Path source = words.inspected.empty() ? words.source : words.inspected;
    if (kind == SourceKind::checkpoint) {
      const auto text = to_text(read_manifest(find_checkpoint(source)));
      facts.push_back({fmt::format("the manifest of {} (hash)", source.string()), base::hex(base::xxh3(text))});
    } else {
      for (const auto& [file, hash] : fingerprints_of_huggingface(source))
        facts.push_back({fmt::format("{} (hash)", file.string()), base::hex(hash)});
    }
  });
  comm::require_same_on_all(world, facts);
}

void to_huggingface(const Words& words, comm::Communicator& world) {
  HuggingFaceOptions options;
  base::Path checkpoint;
  comm::agree_on(world, [&] {
    base::require(words.config.empty(),
                  "--config {}: {} has its model's config.json in its manifest; leave --config out", words.config,
                  words.source);
    options.type = type_of(words.dtype);
    options.experts = form_of(words.experts);
    if (!words.max_shard_size.empty()) options.max_file_bytes = bytes_of(words.max_shard_size);
    checkpoint = find_checkpoint(words.source);
  });
  const auto began = base::seconds_now();
  const auto written = write_huggingface(checkpoint, words.target, options, world);
  base::log_info("{}: {} of {} weights in {} {} from {}, {}", words.target, base::format_bytes(written.bytes),
                 torch_name(written.type), written.files, written.files == 1 ? "file" : "files", checkpoint.string(),
                 base::format_seconds(base::seconds_now() - began));
}

void from_huggingface(const Words& words, comm::Communicator& world) {
  ImportOptions options{.config = words.config};
  comm::agree_on(world, [&] {
    for (const auto& [name, value] : {std::pair{"experts", words.experts}, {"max-shard-size", words.max_shard_size}})
      base::require(value.empty(),
                    "--{} {}: applies to HuggingFace folders that are written, but {} is read; leave it out", name,
                    value, words.source);
    options.type = type_of(words.dtype).value_or(ElementType::F32);
  });
  const auto began = base::seconds_now();
  const auto imported = import_huggingface(words.source, words.target, options, world);
  if (imported.rounded_tensors > 0)
    base::log_warning("{} tensors of a wider type were rounded to {}; --dtype float64 keeps their numbers",
                      imported.rounded_tensors, torch_name(options.type));
  base::log_info("{}: a checkpoint of {} of {} weights at step 0, without moments, from {}, {}", words.target,
                 base::format_bytes(imported.bytes), torch_name(options.type), words.source,
                 base::format_seconds(base::seconds_now() - began));
}

base::ExitCode inspect(const Words& words, comm::Communicator& world) {
  SourceKind kind{};
  base::Path path = words.inspected;
  std::string text;
  comm::agree_on(world, [&] {
    for (const auto* word :
         {&words.source, &words.target, &words.dtype, &words.experts, &words.max_shard_size, &words.config})
      base::require(word->empty(), "{}: --inspect FOLDER converts nothing and takes no other argument", *word);
    kind = kind_of(path);
    if (kind == SourceKind::checkpoint) path = find_checkpoint(path);
    if (kind == SourceKind::huggingface) text = inspect_huggingface(path);
  });
  require_same_conversion(words, kind, world);
  if (kind == SourceKind::checkpoint) text = inspect_checkpoint(path, world);
  if (world.rank() == 0) print(text);
  return base::ExitCode::done;
}

base::ExitCode act(const Words& words, comm::Communicator& world) {
  comm::require_same_on_all(world, {{"--inspect", words.inspected}});
  if (!words.inspected.empty()) return inspect(words, world);
  SourceKind kind{};
  comm::agree_on(world, [&] {
    base::require(!words.source.empty() && !words.target.empty(),
                  "give a SOURCE and a TARGET, or --inspect FOLDER; --help says more");
    kind = kind_of(words.source);
  });
  require_same_conversion(words, kind, world);
  if (kind == SourceKind::checkpoint)
    to_huggingface(words, world);
  else
    from_huggingface(words, world);
  return base::ExitCode::done;
}

void add_words(CLI::App& app, Words& words) {
  app.footer(
      "tessera-convert output hf --dtype bfloat16\n"
      "tessera-convert hf output/step_000000\n"
      "tessera-convert --inspect output");
  app.add_option("SOURCE", words.source,
                 "A checkpoint, or the output folder of a run (its latest checkpoint): TARGET becomes a HuggingFace "
                 "folder. Or a HuggingFace folder, .safetensors file or index: TARGET becomes a checkpoint of its "
                 "weights at step 0");
  app.add_option("TARGET", words.target, "A new folder, which appears whole or not at all");
  app.add_option(
      "--dtype", words.dtype,
      "float32, bfloat16, float16 or float64, rounded to nearest even. To HuggingFace: by default nothing is "
      "rounded. To a checkpoint: float32 (default) or float64");
  app.add_option("--experts", words.experts,
                 "To HuggingFace: separate (default: one tensor per expert, as save_pretrained writes them) or fused "
                 "(gate_up_proj and down_proj)");
  app.add_option("--max-shard-size", words.max_shard_size,
                 "To HuggingFace: most bytes of tensors in one file (default 5GB); in B, KB, MB, GB, KiB, MiB or GiB");
  app.add_option("--config", words.config, "From HuggingFace: config.json, if it is not beside the weights");
  app.add_option("--inspect", words.inspected,
                 "Print the content of a checkpoint or a HuggingFace folder, and verify all hashes of a checkpoint");
}

int run(int argc, const char* const* argv, const comm::Launch& launch) {
  CLI::App app("Converts checkpoints of tessera-train to HuggingFace folders and back.", "tessera-convert");
  Words words;
  add_words(app, words);
  std::string problem;
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    if (launch.rank == 0) print(app.help());
    return static_cast<int>(base::ExitCode::done);
  } catch (const CLI::ParseError& error) {
    problem = error.what();
  }
  comm::World world(launch);
  return static_cast<int>(world.run([&] {
    comm::agree_on(*world.communicator(), [&] { base::require(problem.empty(), "{}", problem); });
    return act(words, *world.communicator());
  }));
}

}  // namespace

int run_convert_command(int argc, const char* const* argv) {
  base::let_writes_fail_at_limit();
  const auto launch = comm::read_launch();
  base::set_log(base::LogLevel::info, launch.rank == 0);
  try {
    return run(argc, argv, launch);
  } catch (...) {  // of the start of the world
    const auto failure = comm::describe_failure(std::current_exception());
    comm::log_failed_start(launch, failure);
    return static_cast<int>(failure.code);
  }
}

}  // namespace tessera::checkpoint

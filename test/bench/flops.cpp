// Floating-point operations of a training step per token, for scripts/device_check.sh, as one JSON object:
//   bench_flops SETTINGS   (those of the run: settings files and `--path.to.setting value`)
// Two conventions; both count 2 for a multiply-add, and backward twice the forward:
//   products   the products of lib/architecture/cost.cpp: attention over the lower triangle (half), router and head
//              counted, the embedding's lookup not
//   six_n      6 x (active parameters without the embedding's table) + 12 x layers x query width x sequence: attention
//              over the whole square, as PaLM's appendix B counts (https://arxiv.org/abs/2204.02311)
#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <filesystem>

#include "architecture/architecture.h"
#include "architecture/family.h"
#include "base/file.h"
#include "base/json.h"
#include "config/command_line.h"

namespace tessera::bench {
namespace {

architecture::ModelConfig read_model(const config::ModelSettings& settings) {
  std::filesystem::path path = settings.config_path.empty() ? settings.model_path : settings.config_path;
  if (std::filesystem::is_directory(path)) path /= "config.json";
  base::Problems problems;
  auto model = architecture::read_model_config(base::parse_json_file(path, base::JsonComments::refused),
                                               settings.overrides, problems);
  problems.throw_if_any("the model");
  return model;
}

double products_per_token(const architecture::Architecture& architecture, std::int64_t sequence) {
  double forward = 0;
  for (const auto& step : architecture.steps()) forward += architecture.cost(step, {.tokens = sequence}).forward_flops;
  return 3 * forward / static_cast<double>(sequence);
}

double six_n_per_token(const architecture::Architecture& architecture, std::int64_t sequence) {
  const auto& c = architecture.config();
  const auto table = c.tie_word_embeddings ? 0 : c.vocab_size * c.hidden_size;  // a tied one is the head's matrix
  const auto width = c.num_attention_heads * c.head_dim;
  return 6 * static_cast<double>(architecture.active_parameters() - table) +
         12 * static_cast<double>(c.num_hidden_layers * width * sequence);
}

void print_flops(const config::Settings& settings) {
  const architecture::Architecture architecture(read_model(settings.model), settings.model.balance_loss);
  const auto sequence = settings.data.max_seq_len;
  fmt::print(
      "{{\"layers\": {}, \"sequence\": {}, \"parameters\": {}, \"active_parameters\": {},\n"
      " \"products_flop_per_token\": {:.6g}, \"six_n_flop_per_token\": {:.6g}}}\n",
      architecture.config().num_hidden_layers, sequence, architecture.total_parameters(),
      architecture.active_parameters(), products_per_token(architecture, sequence),
      six_n_per_token(architecture, sequence));
}

}  // namespace
}  // namespace tessera::bench

int main(int argc, char** argv) {
  try {
    tessera::bench::print_flops(tessera::config::read_command_line(argc, argv).settings);
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench_flops: {}\n", error.what());
    return 2;
  }
  return 0;
}

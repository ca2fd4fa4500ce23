// If this failed, a run would train with another learning rate than its settings ask for, or report a wrong amount or
// speed of its work. The reported numbers are compared with numbers by hand, with weights, and with a clock outside the
// run.
#include <cmath>
#include <numeric>
#include <regex>

#include "base/clock.h"
#include "support/about.h"
#include "support/catch.h"
#include "support/finished_command.h"
#include "support/run_output.h"
#include "support/small_run.h"

namespace tessera::test {
namespace {

FinishedCommand finished(const Words& words) {
  auto done = run_tessera_train(words);
  INFO(done.err);
  REQUIRE(done.exit_code == 0);
  return done;
}

double distance_of(const TensorsByName& a, const TensorsByName& b) {
  double squares = 0;
  for (const auto& [name, tensor] : a) squares += tensor.sub(b.at(name)).square().sum().item<double>();
  return std::sqrt(squares);
}

// The parameters of a checkpoint that has no other states.
TensorsByName masters_of(const std::filesystem::path& checkpoint) {
  TensorsByName masters;
  for (const auto& [name, tensor] : states_of(checkpoint)) masters[name.substr(name.find('/') + 1)] = tensor;
  return masters;
}

// Two steps of warm-up from 0.1, then four of half a cosine from 0.5 towards 0.02: 0.02 + 0.24 (1 + cos(k pi / 4)).
const std::vector<double> rates{0.1, 0.3, 0.5, 0.4297056274847714, 0.26, 0.09029437251522859};

TEST_CASE("the rate of each step is the one by hand, on paper and in the weights") {
  const SmallRun files;
  const auto words = files.words({"--train.precision",
                                  "float64",
                                  "--train.max_steps",
                                  "6",
                                  "--train.optimizer.type",
                                  "sgd",
                                  "--train.optimizer.weight_decay",
                                  "0",
                                  "--train.optimizer.max_grad_norm",
                                  "0",
                                  "--train.optimizer.lr",
                                  "0.5",
                                  "--train.optimizer.lr_start",
                                  "0.1",
                                  "--train.optimizer.lr_min",
                                  "0.02",
                                  "--train.optimizer.lr_warmup_ratio",
                                  "0.34",
                                  "--train.optimizer.lr_decay_style",
                                  "cosine",
                                  "--train.checkpoint.save_steps",
                                  "1"});
  finished(words);
  const auto metrics = read_metrics(files.output() / "metrics.jsonl");
  const auto told = column(metrics, "lr"), norms = column(metrics, "grad_norm");
  REQUIRE(told.size() == rates.size());
  REQUIRE(norms.size() == rates.size());
  Start start(files.settings({"--train.precision", "float64"}));
  TensorsByName before;
  for (const auto& p : start.assembly().store().parameters()) before[p.placement.parameter.fqn] = p.master;
  for (std::size_t k = 0; k < rates.size(); ++k) {
    INFO("step " << k + 1);
    CHECK(told[k] == about(rates[k]).epsilon(1e-14));
    // Plain gradient descent moves the weights by rate times norm.
    auto after = masters_of(checkpoint_of(files.output(), static_cast<std::int64_t>(k) + 1));
    REQUIRE(after.size() == before.size());
    CHECK(distance_of(before, after) / norms[k] == about(rates[k]).epsilon(1e-10));
    before = std::move(after);
  }
}

// "tokens       455 (7.10k tokens/s)" -> 455, 7100.
std::pair<double, double> tokens_and_speed(const std::string& log) {
  const std::regex line("\n  tokens +([0-9.]+)([kM]?) \\(([0-9.]+)([kMG]?) tokens/s\\)\n");
  std::smatch found;
  REQUIRE(std::regex_search(log, found, line));
  const auto number = [](const std::string& digits, const std::string& unit) {
    return std::stod(digits) * (unit == "k" ? 1e3 : unit == "M" ? 1e6 : unit == "G" ? 1e9 : 1);
  };
  return {number(found[1], found[2]), number(found[3], found[4])};
}

TEST_CASE("the end page tells the tokens that the data have, and those over the seconds of the steps as their speed") {
  const SmallRun files;
  // 66 tokens are 5 windows of 13: steps of 2, 2 and 1 windows. Evaluations take most of the time and do not count.
  std::vector<std::vector<std::int64_t>> documents(1);
  for (std::int64_t i = 0; i < 66; ++i) documents[0].push_back(i * 7 % 31);
  files.folder().write("train.jsonl", jsonl_of(documents));
  files.folder().write("eval.jsonl", jsonl_of(small_documents(80)));
  Words words{"--data.eval_path",          files.folder() / "eval.jsonl",
              "--train.eval_steps",        "1",
              "--train.global_batch_size", "2",
              "--train.max_steps",         "null",
              "--train.num_train_epochs",  "7"};
  const auto check = [&](double tokens, std::size_t steps) {
    const double began = base::seconds_now();
    const auto done = finished(files.words(words));
    const double seconds = base::seconds_now() - began;
    const auto metrics = read_metrics(files.output() / "metrics.jsonl");
    const auto step_s = column(metrics, "step_s");
    REQUIRE(step_s.size() >= steps);
    const double in_steps = std::accumulate(step_s.end() - static_cast<std::ptrdiff_t>(steps), step_s.end(), 0.0);
    const auto [told, speed] = tokens_and_speed(done.err);
    CHECK(told == tokens);
    // Three digits are told.
    CHECK(speed == about(tokens / in_steps).epsilon(0.01));
    CHECK(in_steps > 0);
    CHECK(in_steps < seconds);
    CHECK(speed > 0.99 * tokens / seconds);
  };
  check(7 * 65, 7 * 3);
  const auto metrics = read_metrics(files.output() / "metrics.jsonl");
  const auto tokens = column(metrics, "tokens"), speed = column(metrics, "tokens_per_s"),
             step_s = column(metrics, "step_s");
  for (std::size_t k = 0; k < tokens.size(); ++k) {
    CHECK(tokens[k] == (k % 3 == 2 ? 13 : 26));
    CHECK(speed[k] == about(tokens[k] / step_s[k]).epsilon(1e-12));
  }
  // Of what a resumed run does itself.
  words.back() = "9";
  words = joined(words, {"--train.checkpoint.load_path", "auto"});
  check(2 * 65, 2 * 3);
}

TEST_CASE("the seconds of one half of a step are those of its instructions, and not of the other half's") {
  const SmallRun files;
  for (const std::string half : {"compute", "comm"}) {
    Start start(files.settings({"--train.debug.only", half}));
    const auto step = start.steps(1).front();
    auto& assembly = start.assembly();
    auto& executor = assembly.executor();
    const auto result = executor.run(assembly.program(program::StepKind::train, step.windows), step.inputs);
    double communication = 0, computation = 0;
    for (const auto& [kind, entry] : executor.timeline().entries()) {
      const bool is_started = kind == "Gather" || kind == "Reduce" || kind == "Exchange" || kind == "Sum";
      (is_started ? communication : computation) += entry.seconds;
    }
    CAPTURE(half);
    CHECK(communication > 0);
    CHECK(result.measured_s == about(half == "comm" ? communication : computation).epsilon(1e-9));
  }
}

}  // namespace
}  // namespace tessera::test

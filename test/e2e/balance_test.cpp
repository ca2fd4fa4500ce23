// If this failed, the balance loss or the z-loss would be added twice or never, or would be part of the evaluation's
// loss.
#include <malloc.h>

#include <cmath>

#include "support/catch.h"
#include "support/small_run.h"

namespace tessera::test {
namespace {

const std::vector<std::string> kinds{"pooled", "per_layer", "sequence"};

Words with_balance(const std::string& balance, const Words& more = {}) {
  Words words{"--train.precision",        "float64", "--model.balance_loss", balance,
              "--train.micro_batch_size", "2",       "--data.documents",     "separate"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

bool is_router(const std::string& name) { return name.ends_with("mlp.gate.weight"); }

TEST_CASE("the logged loss is ce + c * aux + c_z * z") {
  for (const auto& balance : kinds) {
    INFO(balance);
    const SmallRun files;
    const auto trained = run_training(files.settings(
        with_balance(balance, {"--model.router_aux_loss_coef", "0.3", "--model.router_z_loss_coef", "0.07"})));
    const auto loss = trained.column("loss"), ce = trained.column("ce_loss"), aux = trained.column("aux_loss"),
               z = trained.column("z_loss");
    REQUIRE(loss.size() == 5);
    for (std::size_t k = 0; k < loss.size(); ++k) {
      CHECK(aux[k] > 0);
      CHECK(z[k] > 0);
      CHECK(std::abs(loss[k] - (ce[k] + 0.3 * aux[k] + 0.07 * z[k])) <= 1e-14 * loss[k]);
    }
  }
}

TEST_CASE("gradients are linear in the coefficients and the router has one without them") {
  for (const auto& balance : kinds) {
    for (const char* coefficient : {"--model.router_aux_loss_coef", "--model.router_z_loss_coef"}) {
      INFO(balance << ", " << coefficient);
      const SmallRun files;
      const auto with = [&](const char* value) {
        Words words{"--model.router_aux_loss_coef", "0", coefficient, value};
        return first_gradients(files.settings(with_balance(balance, words)));
      };
      const auto none = with("0"), once = with("0.25"), twice = with("0.5");
      CHECK(once.result.cross_entropy == none.result.cross_entropy);
      CHECK(once.result.balance_loss == none.result.balance_loss);
      CHECK(once.result.z_loss == none.result.z_loss);
      TensorsByName doubled;
      for (const auto& [name, gradient] : none.of) {
        INFO(name);
        CHECK(gradient.abs().max().item<double>() > 0);
        const auto change = once.of.at(name).sub(gradient);
        if (is_router(name)) CHECK(change.abs().max().item<double>() > 0);
        doubled[name] = gradient.add(change.mul(2));
      }
      CHECK(largest_deviation(twice.of, doubled) <= 1e-12);
    }
  }
}

TEST_CASE("the gradient of the balance loss is what finite differences of the reported value give") {
  for (const auto& balance : kinds) {
    INFO(balance);
    const SmallRun files;
    const auto settings = files.settings(with_balance(balance, {"--model.router_aux_loss_coef", "1"}));
    const auto without = first_gradients(files.settings(with_balance(balance, {"--model.router_aux_loss_coef", "0"})));
    Start start(settings);
    const auto step = start.steps(1).front();
    const auto gradient = gradients(start.assembly(), step);
    const std::string router = "model.layers.2.mlp.gate.weight";
    auto* element = start.assembly().store().parameter(router).master.data_ptr<double>() + 7;
    const auto value = [&](double change) {
      const double kept = *element;
      *element += change;
      const auto result = gradients(start.assembly(), step).result.balance_loss;
      *element = kept;
      return result;
    };
    const double h = 1e-5;
    const auto expected = (value(h) - value(-h)) / (2 * h);
    const auto difference = gradient.of.at(router).sub(without.of.at(router)).data_ptr<double>()[7];
    CHECK(std::abs(difference - expected) <= 1e-7 * std::abs(expected));
  }
}

TEST_CASE("a uniform router has balance loss k, whatever the definition and the micro-batches") {
  for (const auto& balance : kinds) {
    for (const char* micro : {"1", "3", "4"}) {
      INFO(balance << ", micro-batch " << micro);
      const SmallRun files;
      Start start(files.settings(
          {"--train.precision", "float64", "--model.balance_loss", balance, "--train.micro_batch_size", micro}));
      for (auto& p : start.assembly().store().parameters())
        if (is_router(p.placement.parameter.fqn)) p.master.zero_();
      const auto result = gradients(start.assembly(), start.steps(1).front()).result;
      CHECK(std::abs(result.balance_loss - 2) <= 1e-12);
      CHECK(std::abs(result.z_loss - std::log(5.0) * std::log(5.0)) <= 1e-12);
    }
  }
}

TEST_CASE("evaluation does not depend on the coefficients") {
  const SmallRun files;
  const auto evaluate = [&](const char* coefficient) {
    const auto trained = run_training(files.settings(
        {"--train.max_steps", "1", "--train.optimizer.lr", "0", "--data.eval_path", files.folder() / "eval.jsonl",
         "--model.router_aux_loss_coef", coefficient, "--model.router_z_loss_coef", coefficient}));
    const auto perplexity = trained.column("eval/perplexity").at(0);
    const auto ce = trained.column("eval/ce_loss").at(0);
    CHECK(perplexity == std::exp(ce));
    return ce;
  };
  CHECK(evaluate("1") == evaluate("0"));
}

// Bytes that the process has allocated.
std::size_t allocated() {
  const auto info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

TEST_CASE("memory is flat over 200 evaluation batches and over 200 training steps") {
  const SmallRun files;
  Start start(files.settings({"--model.router_aux_loss_coef", "1", "--train.gradient_checkpointing.enable", "true"}));
  const auto step = start.steps(1).front();
  for (const auto& [kind, warm_up, runs] :
       {std::tuple{program::StepKind::evaluate, 20, 200}, {program::StepKind::train, 20, 200}}) {
    const auto& program = start.assembly().program(kind, step.windows);
    for (int k = 0; k < warm_up; ++k) static_cast<void>(start.assembly().executor().run(program, step.inputs));
    const auto before = allocated();
    for (int k = 0; k < runs; ++k) static_cast<void>(start.assembly().executor().run(program, step.inputs));
    const auto after = allocated();
    INFO(before << " bytes before, " << after << " after");
    // A tensor kept by each run would cost more than 200 bytes a run, however small; the allocator's caches vary by
    // some kilobytes in all.
    CHECK(after < before + 200 * static_cast<std::size_t>(runs));
  }
}

}  // namespace
}  // namespace tessera::test

// If this failed, packed documents would attend to or predict each other, or tokens of short documents would weigh more
// than those of long ones.
#include <cmath>

#include "data/window.h"
#include "support/catch.h"
#include "support/small_run.h"

namespace tessera::test {
namespace {

using architecture::ValueKind;
using Document = std::vector<std::int64_t>;

const Document a{3, 1, 4, 1, 5, 9}, b{2, 6, 5, 3}, c{5, 8, 9, 7, 9, 3, 2};

// The window that packs these documents; labels of those below `first_counted` do not count.
data::Window packed(const std::vector<Document>& documents, std::size_t first_counted = 0) {
  data::Window window;
  window.attention_starts = {0};
  for (std::size_t d = 0; d < documents.size(); ++d) {
    const auto& ids = documents[d];
    for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
      window.ids.push_back(ids[i]);
      window.labels.push_back(d < first_counted ? data::no_label : ids[i + 1]);
      window.positions.push_back(static_cast<std::int64_t>(i));
    }
    window.attention_starts.push_back(std::ssize(window.ids));
  }
  return window;
}

const Words exact_documents{"--train.precision", "float64", "--model.router_aux_loss_coef", "0"};

Words exact_with(const Words& more) {
  auto words = exact_documents;
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

Gradients gradients_of(Start& start, const std::vector<std::vector<data::Window>>& micro_batches) {
  const auto full = start.assembly().blueprint().settings.train.micro_batch_size;
  return gradients(start.assembly(), {inputs_of(micro_batches), std::ssize(micro_batches) * full});
}

TEST_CASE("documents of 5, 4 and 3 tokens have 9 targets when kept apart, 11 when joined") {
  const SmallRun files;
  files.folder().write("three.jsonl", jsonl_of({{1, 2, 3, 4, 5}, {6, 7, 8, 9}, {10, 11, 12}}));
  const auto targets = [&](const char* documents, const char* window) {
    Start start(files.settings({"--data.train_path", files.folder() / "three.jsonl", "--data.documents", documents,
                                "--data.max_seq_len", window, "--train.global_batch_size", "1"}));
    return gradients(start.assembly(), start.steps(1).front()).result.valid_tokens;
  };
  CHECK(targets("separate", "9") == 9);
  CHECK(targets("joined", "11") == 11);
}

TEST_CASE("other tokens in the first document leave loss and gradients of the packed others alone") {
  const Document other_a{30, 0, 17, 22, 30, 12};
  const auto beside = packed({c, b, a});
  for (const Words& recompute : {Words{}, Words{"--train.gradient_checkpointing.enable", "true"}}) {
    for (const char* micro : {"1", "2"}) {
      INFO("micro-batch " << micro << (recompute.empty() ? "" : ", recomputed"));
      auto words = exact_with({"--train.micro_batch_size", micro});
      words.insert(words.end(), recompute.begin(), recompute.end());
      const SmallRun files;
      Start start(files.settings(words));
      const auto batches = [&](const Document& first) {
        const auto window = packed({first, b, c}, 1);
        return *micro == '1' ? std::vector<std::vector<data::Window>>{{window}, {beside}}
                             : std::vector<std::vector<data::Window>>{{window, beside}};
      };
      const auto expected = gradients_of(start, batches(a));
      const auto changed = gradients_of(start, batches(other_a));
      CHECK(std::abs(changed.result.cross_entropy - expected.result.cross_entropy) <=
            1e-12 * expected.result.cross_entropy);
      CHECK(largest_deviation(changed.of, expected.of) <= 1e-12);
    }
  }
}

TEST_CASE("one range of attention does see the first document") {
  const SmallRun files;
  Start start(files.settings(exact_documents));
  const auto joined = [](const Document& first) {
    auto window = packed({first, b, c}, 1);
    window.attention_starts = {0, std::ssize(window.ids)};
    return std::vector<std::vector<data::Window>>{{window}};
  };
  const auto one = gradients_of(start, joined(a)).result.cross_entropy;
  const auto other = gradients_of(start, joined({30, 0, 17, 22, 30, 12})).result.cross_entropy;
  CHECK(std::abs(one - other) > 1e-4 * one);
}

TEST_CASE("the loss of a pack, and of micro-batches, is the mean over all their targets") {
  const SmallRun files;
  Start start(files.settings(exact_documents));
  double sum = 0;
  TensorsByName gradient;
  std::int64_t all = 0;
  for (const auto& document : {a, b, c}) {
    const auto alone = gradients_of(start, {{packed({document})}});
    const auto targets = std::ssize(document) - 1;
    CHECK(alone.result.valid_tokens == targets);
    sum += alone.result.cross_entropy * static_cast<double>(targets);
    all += targets;
    for (const auto& [name, tensor] : alone.of) {
      const auto weighted = tensor.mul(static_cast<double>(targets));
      gradient[name] = gradient.contains(name) ? gradient.at(name).add(weighted) : weighted;
    }
  }
  for (auto& [name, tensor] : gradient) tensor = tensor.div(static_cast<double>(all));
  const auto expected = sum / static_cast<double>(all);
  const std::vector<std::vector<std::vector<data::Window>>> forms{
      {{packed({a, b, c})}}, {{packed({a}), packed({b}), packed({c})}}, {{packed({a})}, {packed({b, c})}}};
  for (const auto& form : forms) {
    const auto together = gradients_of(start, form);
    CHECK(together.result.valid_tokens == all);
    CHECK(std::abs(together.result.cross_entropy - expected) <= 1e-12 * expected);
    CHECK(largest_deviation(together.of, gradient) <= 1e-12);
  }
}

TEST_CASE("targets that do not count weigh nothing: 5 of one sequence and 1 of another are 6") {
  const SmallRun files;
  Start start(files.settings(exact_documents));
  auto one_target = packed({c});
  for (std::size_t k = 0; k + 1 < one_target.labels.size(); ++k) one_target.labels[k] = data::no_label;
  const auto long_one = gradients_of(start, {{packed({a})}}).result;
  const auto short_one = gradients_of(start, {{one_target}}).result;
  CHECK(long_one.valid_tokens == 5);
  CHECK(short_one.valid_tokens == 1);
  const auto expected = (5 * long_one.cross_entropy + short_one.cross_entropy) / 6;
  const std::vector<std::vector<std::vector<data::Window>>> forms{{{packed({a}), one_target}},
                                                                  {{packed({a})}, {one_target}}};
  for (const auto& form : forms) {
    const auto result = gradients_of(start, form).result;
    CHECK(result.valid_tokens == 6);
    CHECK(std::abs(result.cross_entropy - expected) <= 1e-12 * expected);
  }
}

TEST_CASE("room that a window leaves unused takes no part in routing, balance or gradients") {
  for (const char* balance : {"pooled", "per_layer", "sequence"}) {
    INFO(balance);
    const SmallRun files;
    files.folder().write("three.jsonl", jsonl_of({a, b, c}));
    const auto in_windows_of = [&](const char* tokens) {
      return first_gradients(files.settings({"--data.train_path", files.folder() / "three.jsonl", "--data.documents",
                                             "separate", "--data.max_seq_len", tokens, "--model.balance_loss", balance,
                                             "--model.router_aux_loss_coef", "0.5"}));
    };
    const auto full = in_windows_of("14"), loose = in_windows_of("34");
    CHECK(full.result.tokens == 14);
    CHECK(loose.result.expert_load == full.result.expert_load);
    CHECK(loose.result.balance_loss == full.result.balance_loss);
    CHECK(same_bits(loose.of, full.of));
  }
}

TEST_CASE("documents route alike packed into one window and alone") {
  const SmallRun files;
  Start start(files.settings(
      {"--train.precision", "float64", "--model.router_aux_loss_coef", "0.5", "--model.router_z_loss_coef", "0.1"}));
  const auto packed_ones = gradients_of(start, {{packed({a, b, c})}});
  const auto alone = gradients_of(start, {{packed({a}), packed({b}), packed({c})}});
  CHECK(packed_ones.result.expert_load == alone.result.expert_load);
  CHECK(std::abs(packed_ones.result.balance_loss - alone.result.balance_loss) <= 1e-12);
  CHECK(std::abs(packed_ones.result.z_loss - alone.result.z_loss) <= 1e-12 * alone.result.z_loss);
  CHECK(largest_deviation(packed_ones.of, alone.of) <= 1e-12);
}

}  // namespace
}  // namespace tessera::test

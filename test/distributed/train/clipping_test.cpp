// If this failed, ranks would clip by different norms, or by a norm that counts other owners' experts or replicas
// wrongly: weights would drift apart, or steps would be shorter than the setting says.
#include <cmath>
#include <cstring>
#include <limits>

#include "gathered.h"
#include "support/catch.h"
#include "support/ranks.h"

namespace tessera::test {
namespace {

using program::Op;
using program::SumKind;

const std::string dense = "model.norm.weight", expert = "model.layers.1.mlp.experts.up_proj",
                  embedding = "model.embed_tokens.weight";
constexpr double infinity = std::numeric_limits<double>::infinity();

// One element of a gradient.
struct Element {
  std::string fqn;
  std::vector<std::int64_t> index;
  double value = 0;
};

// The layouts in which the experts, the embedding and all others are three groups; replicated where ranks suffice.
std::vector<Words> layouts_of_three_groups() {
  const auto both = groups({{"ep", 2}, {"emb", 2}});
  if (world().size() == 2) return {both};
  return {joined(both, {"--train.accelerator.dp_replicate_size", "2"}), both,
          joined(both, {"--train.accelerator.fsdp_config.fsdp_mode", "ddp"}), groups({{"ep", 4}, {"emb", 2}})};
}

// Sets the elements on every rank that holds them, as the sums over replicas leave them: all other gradients are zero.
void set_gradients(train::Assembly& assembly, const std::vector<Element>& elements) {
  assembly.store().zero_gradients();
  for (const auto& element : elements) {
    const auto& p = assembly.store().parameter(element.fqn);
    auto part = p.gradient;
    for (std::size_t d = 0; d < element.index.size(); ++d) {
      const auto& block = p.box.dims[d];
      const bool is_here = element.index[d] >= block.begin && element.index[d] < block.end;
      part = part.narrow(static_cast<std::int64_t>(d), is_here ? element.index[d] - block.begin : 0, is_here ? 1 : 0);
    }
    part.fill_(element.value);
  }
}

// The part of the training program behind the last backward: the sums that frame it, clip and, if asked for, update.
program::Program end_of_step(train::Assembly& assembly, const std::vector<SumKind>& sums, bool updates) {
  auto program = assembly.program(program::StepKind::train, assembly.blueprint().global_batch);
  std::erase_if(program.instructions, [&](const program::Instruction& i) {
    if (i.op == Op::sum || (i.op == Op::wait && i.waits_for == Op::sum))
      return std::find(sums.begin(), sums.end(), i.sum) == sums.end();
    return i.op != Op::clip && (i.op != Op::update || !updates);
  });
  return program;
}

executor::StepResult finish(Start& start, const std::vector<Element>& elements) {
  set_gradients(start.assembly(), elements);
  return start.assembly().executor().run(end_of_step(start.assembly(), {SumKind::open, SumKind::close}, false),
                                         start.steps(1).front().inputs);
}

bool same_bits_on_all_ranks(double value) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  const auto all = hashes_of_ranks(bits);
  return all == std::vector<std::uint64_t>(all.size(), all.front());
}

std::string text_of(double norm_type) { return std::isinf(norm_type) ? "inf" : std::to_string(norm_type); }

double norm_of(const std::vector<double>& values, double p) {
  double sum = 0;
  for (const auto value : values)
    sum = std::isinf(p) ? std::max(sum, std::abs(value)) : sum + std::pow(std::abs(value), p);
  return std::isinf(p) ? sum : std::pow(sum, 1 / p);
}

// Owners hold experts 2, 4 and 6, 8 in blocks of ceil(5 / ep).
const std::vector<Element> of_experts{
    {expert, {0, 10, 3}, 2}, {expert, {1, 0, 14}, 4}, {expert, {3, 5, 7}, -6}, {expert, {4, 10, 14}, 8}};
const std::vector<Element> of_all{
    of_experts[0],          of_experts[1],     of_experts[2],           of_experts[3],
    {dense, {0}, 3},        {dense, {14}, -4}, {embedding, {0, 14}, 1}, {embedding, {30, 0}, -2},
    {embedding, {16, 7}, 2}};

TEST_CASE("experts 2, 4 of one owner and 6, 8 of another have the norm of 120's root on every rank") {
  const SmallRun files;
  for (const auto& words : layouts_of_three_groups()) {
    CAPTURE(words);
    Start start(files.settings(joined(words, {"--train.optimizer.max_grad_norm", "1"})), world().communicator());
    const auto result = finish(start, of_experts);
    CHECK(result.grad_norm == std::sqrt(120.0));
    CHECK(result.group_norms == std::map<std::string, double>{{"dense", 0}, {"ep", std::sqrt(120.0)}, {"emb", 0}});
    CHECK(result.clip_factor == 1 / (std::sqrt(120.0) + 1e-6));
    CHECK(std::abs(result.clip_factor - 0.0912871) <= 1e-7);
    CHECK(same_bits_on_all_ranks(result.grad_norm));
    CHECK(same_bits_on_all_ranks(result.clip_factor));
    // Without a gradient of the first owner.
    CHECK(finish(start, {of_experts[2], of_experts[3]}).grad_norm == 10);
    CHECK(finish(start, {}).grad_norm == 0);
  }
}

TEST_CASE("a shard that every holder counted would show as a norm larger by the root of its holders") {
  const SmallRun files;
  for (const auto& words : layouts_of_three_groups()) {
    CAPTURE(words);
    Start start(files.settings(words), world().communicator());
    auto& store = start.assembly().store();
    for (auto& p : store.parameters()) p.is_primary = true;
    const auto holders =
        start.assembly().blueprint().layout.group_size(store.parameter(expert).placement.replicate_group);
    CHECK(finish(start, of_experts).grad_norm == std::sqrt(120.0 * static_cast<double>(holders)));
  }
}

TEST_CASE("each p has one norm and three groups' norms, exact on every rank") {
  const SmallRun files;
  for (const auto& words : layouts_of_three_groups())
    for (const double p : {1.0, 2.0, 3.0, infinity}) {
      CAPTURE(words, p);
      Start start(files.settings(joined(words, {"--train.optimizer.norm_type", text_of(p)})), world().communicator());
      const auto result = finish(start, of_all);
      const std::map<std::string, std::vector<double>> values{
          {"dense", {3, -4}}, {"ep", {2, 4, -6, 8}}, {"emb", {1, -2, 2}}};
      REQUIRE(result.group_norms.size() == 3);
      std::vector<double> all;
      for (const auto& [group, list] : values) {
        CAPTURE(group);
        CHECK(std::abs(result.group_norms.at(group) - norm_of(list, p)) <= 1e-15 * norm_of(list, p));
        CHECK(same_bits_on_all_ranks(result.group_norms.at(group)));
        all.insert(all.end(), list.begin(), list.end());
      }
      CHECK(std::abs(result.grad_norm - norm_of(all, p)) <= 1e-15 * norm_of(all, p));
      CHECK(same_bits_on_all_ranks(result.grad_norm));
      if (p == 1) CHECK(result.grad_norm == 32);
      if (p == 2)
        CHECK(result.group_norms == std::map<std::string, double>{{"dense", 5}, {"ep", std::sqrt(120.0)}, {"emb", 3}});
      if (std::isinf(p)) CHECK(result.grad_norm == 8);
    }
}

TEST_CASE("the norm of a p whose powers leave the range of float64 is right to rounding on every rank") {
  const SmallRun files;
  for (const auto& words : layouts_of_three_groups())
    for (const double p : {3.0, 100.0, 1000.0}) {
      CAPTURE(words, p);
      Start start(files.settings(joined(words, {"--train.optimizer.norm_type", text_of(p)})), world().communicator());
      // 2 and 4 x 2^66 of one owner, -4 x 2^66 of another, 2^-120 beside them in another group.
      const double unit = std::ldexp(1.0, 66), tiny = std::ldexp(1.0, -120);
      const auto result = finish(start, {{expert, {0, 10, 3}, 2},
                                         {expert, {1, 0, 14}, 4 * unit},
                                         {expert, {3, 5, 7}, -4 * unit},
                                         {dense, {0}, tiny}});
      const double expected = 4 * unit * std::pow(2.0, 1 / p);
      CHECK((result.outcome == executor::Outcome::done));
      CHECK(std::abs(result.grad_norm - expected) <= 1e-15 * expected);
      CHECK(result.group_norms.at("ep") == result.grad_norm);
      CHECK(result.group_norms.at("dense") == tiny);
      CHECK(result.group_norms.at("emb") == 0);
      CHECK(same_bits_on_all_ranks(result.grad_norm));
      CHECK(finish(start, {}).grad_norm == 0);
      const auto bad = finish(start, {of_experts[0], {expert, {4, 2, 2}, infinity}});
      CHECK((bad.outcome == executor::Outcome::non_finite));
      CHECK(bad.non_finite_where == "the gradient of " + expert);
    }
}

// Two units use it: the lookup its owned rows, the head all of them.
TEST_CASE("a tied embedding, which is looked up in and multiplied with, counts once in the norm, whoever holds it") {
  const SmallRun files;
  auto layouts = layouts_of_three_groups();
  layouts.push_back({});  // all of it dense
  for (const auto& words : layouts)
    for (const double p : {1.0, 2.0, infinity}) {
      CAPTURE(words, p);
      Start start(files.settings(joined(
                      words, {"--model.tie_word_embeddings", "true", "--train.optimizer.norm_type", text_of(p)})),
                  world().communicator());
      const auto result = finish(start, {{embedding, {0, 14}, 1}, {embedding, {30, 0}, -2}, {embedding, {16, 7}, 2}});
      CHECK(result.grad_norm == norm_of({1, -2, 2}, p));
      CHECK(result.group_norms.at(words.empty() ? "dense" : "emb") == norm_of({1, -2, 2}, p));
      CHECK(same_bits_on_all_ranks(result.grad_norm));
    }
}

TEST_CASE("numbers of several groups: 20 as a sum, 8 as the largest") {
  const SmallRun files;
  for (const auto& words : layouts_of_three_groups())
    for (const auto& [p, expected] : {std::pair{"1", 20.0}, {"2", std::sqrt(120.0)}, {"inf", 8.0}}) {
      CAPTURE(words, p);
      Start start(files.settings(joined(words, {"--train.optimizer.norm_type", p})), world().communicator());
      CHECK(finish(start, {{expert, {0, 0, 0}, 2}, {embedding, {30, 14}, 4}, {dense, {7}, 6}, {expert, {4, 1, 1}, -8}})
                .grad_norm == expected);
    }
}

TEST_CASE("a clip limit of 0 or inf leaves the gradients, a larger one than the norm too, and the norm is there") {
  const SmallRun files;
  for (const std::string limit : {"0", "inf", "10.96"}) {
    CAPTURE(limit);
    Start start(files.settings(joined(layouts_of_three_groups().front(), {"--train.optimizer.max_grad_norm", limit})),
                world().communicator());
    const auto result = finish(start, of_experts);
    CHECK(result.clip_factor == 1);
    CHECK(result.grad_norm == std::sqrt(120.0));
  }
}

TEST_CASE("a gradient that is not finite on one owner is every rank's, and is named") {
  const SmallRun files;
  for (const double value : {std::nan(""), infinity}) {
    CAPTURE(value);
    Start start(files.settings(layouts_of_three_groups().front()), world().communicator());
    const auto result = finish(start, {of_experts[0], {expert, {4, 2, 2}, value}});
    CHECK((result.outcome == executor::Outcome::non_finite));
    CHECK(result.non_finite_where == "the gradient of " + expert);
    CHECK(std::isnan(result.clip_factor));
  }
}

TEST_CASE("every rank's update is its gradient times the rate and the one factor, summed over replicas once") {
  const SmallRun files;
  for (const auto& words : layouts_of_three_groups()) {
    CAPTURE(words);
    Start start(files.settings(joined(words, {"--train.precision", "float64", "--train.optimizer.type", "sgd",
                                              "--train.optimizer.max_grad_norm", "1"})),
                world().communicator());
    auto& assembly = start.assembly();
    const auto before = gathered_masters(assembly);
    set_gradients(assembly, of_all);
    // Each holder of a shard brings a part of its gradient: the sum over replicas is what of_all says.
    for (auto& p : assembly.store().parameters())
      p.gradient.div_(static_cast<double>(assembly.blueprint().layout.group_size(p.placement.replicate_group)));
    auto inputs = start.steps(1).front().inputs;
    inputs.lr = 0.5;
    const auto result = assembly.executor().run(
        end_of_step(assembly, {SumKind::open, SumKind::replicas, SumKind::close}, true), std::move(inputs));
    CHECK(result.grad_norm == std::sqrt(154.0));
    auto expected = before;
    for (auto& [fqn, tensor] : expected) tensor = tensor.clone();
    for (const auto& element : of_all) {
      auto part = expected.at(element.fqn);
      for (std::size_t d = 0; d < element.index.size(); ++d)
        part = part.narrow(static_cast<std::int64_t>(d), element.index[d], 1);
      part.sub_(0.5 * element.value / (std::sqrt(154.0) + 1e-6));
    }
    CHECK(largest_deviation(gathered_masters(assembly), expected) <= 1e-15);
  }
}

}  // namespace
}  // namespace tessera::test

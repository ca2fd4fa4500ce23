// If this failed, a checkpoint would hold other numbers than the run's, or a resumed run would start from others than
// were saved.
#include "checkpoint/states.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "checkpoint/restore.h"
#include "checkpoint/saver.h"
#include "comm/communicator.h"
#include "optim/weight_decay.h"
#include "plan/parallel_plan.h"
#include "support/catch.h"
#include "support/error_of.h"
#include "support/temp_folder.h"

namespace tessera::checkpoint {
namespace {

using Catch::Matchers::Contains;
using Type = config::OptimizerType;

const std::vector<base::ParameterSpec> parameters{{"embed", {7, 5}}, {"norm", {5}}, {"experts", {3, 2, 5}}};

config::OptimizerSettings optimizer_settings(Type type, double momentum) {
  config::OptimizerSettings settings;
  settings.type = type;
  settings.momentum = momentum;
  return settings;
}

// What one rank alone trains.
class Trained {
 public:
  explicit Trained(Type type = Type::adamw, double momentum = 0, at::ScalarType master = at::kFloat)
      : store_({{"all",
                 {{"embed", plan::UseKind::whole}, {"norm", plan::UseKind::whole}, {"experts", plan::UseKind::whole}}}},
               placements(), layout_, mesh_, 0, {.numbers = {master, master, master}}),
        optimizer_(optimizer_settings(type, momentum), decay(), shards(store_)) {}

  // Element k of state s of parameter p becomes first + 1000 p + 100 s + k.
  void fill(double first) {
    const auto states = shard_states(store_, optimizer_);
    for (std::size_t p = 0; p < states.size(); ++p)
      for (std::size_t s = 0; s < states[p].size(); ++s)
        states[p][s].tensor.copy_(value(first, p, s, states[p][s].tensor));
  }
  static at::Tensor value(double first, std::size_t p, std::size_t s, const at::Tensor& like) {
    return at::arange(like.numel(), like.options())
        .view(like.sizes())
        .add(first + 1000 * static_cast<double>(p) + 100 * static_cast<double>(s));
  }
  [[nodiscard]] bool holds(double first) const {
    const auto states = shard_states(store_, optimizer_);
    for (std::size_t p = 0; p < states.size(); ++p)
      for (std::size_t s = 0; s < states[p].size(); ++s)
        if (!at::equal(states[p][s].tensor, value(first, p, s, states[p][s].tensor))) return false;
    return true;
  }

  fsdp::ParameterStore& store() { return store_; }
  optim::Optimizer& optimizer() { return optimizer_; }
  [[nodiscard]] const layout::Layout& layout() const { return layout_; }

 private:
  [[nodiscard]] std::vector<plan::Placement> placements() const {
    base::Problems problems;
    auto list = plan::place(parameters, plan::ParallelPlan{}, layout_, plan::MasterSharding::sharded, problems);
    problems.throw_if_any("placements");
    return list;
  }
  static optim::DecayGroups decay() {
    base::Problems problems;
    auto groups = optim::group_by_decay(parameters, {}, problems);
    problems.throw_if_any("groups");
    return groups;
  }
  static std::vector<optim::OptimizedShard> shards(fsdp::ParameterStore& store) {
    std::vector<optim::OptimizedShard> list;
    for (auto& p : store.parameters()) list.push_back({p.placement.parameter.fqn, p.master, p.gradient});
    return list;
  }

  layout::Layout layout_{layout::LayoutSizes{}};
  mesh::Mesh mesh_{layout_, comm::solo_communicator()};
  fsdp::ParameterStore store_;
  optim::Optimizer optimizer_;
};

const SavedFacts facts{{.step = 4, .optimizer_steps = 3, .skipped_steps = 1, .total_steps = 9, .tokens = 77},
                       "1 rank",
                       R"({"train":{"seed":5}})",
                       R"({"hidden_size":5})"};

SaveResult save(Trained& trained, const base::Path& output, SaveMode mode = SaveMode::wait) {
  const auto world = comm::solo_communicator();
  Saver saver({.output = output}, trained.store(), trained.optimizer(), trained.layout(), *world);
  saver.start(facts, mode);
  auto result = saver.finish();
  REQUIRE(result.has_value());
  return *result;
}

std::vector<std::string> names_of(const std::vector<ShardState>& states) {
  std::vector<std::string> names;
  for (const auto& state : states) names.push_back(state.name);
  return names;
}

TEST_CASE("the master comes first, then the optimizer's moments, in the store's order and in its memory") {
  for (const auto& [type, momentum, names] :
       {std::tuple{Type::adamw, 0.0, std::vector<std::string>{"master", "exp_avg", "exp_avg_sq"}},
        {Type::sgd, 0.9, {"master", "momentum_buffer"}},
        {Type::sgd, 0.0, {"master"}}}) {
    Trained trained(type, momentum);
    const auto states = shard_states(trained.store(), trained.optimizer());
    REQUIRE(states.size() == parameters.size());
    for (std::size_t p = 0; p < states.size(); ++p) {
      CHECK(names_of(states[p]) == names);
      CHECK(states[p][0].tensor.data_ptr() == trained.store().parameters()[p].master.data_ptr());
      for (const auto& state : states[p]) CHECK(state.tensor.sizes() == at::IntArrayRef(parameters[p].shape));
    }
    for (const auto& moment : trained.optimizer().state()) {
      const auto& of = states[moment.fqn == "embed" ? 0 : moment.fqn == "norm" ? 1 : 2];
      CHECK(std::ranges::count_if(of, [&](const auto& s) { return s.tensor.data_ptr() == moment.tensor.data_ptr(); }) ==
            1);
    }
  }
}

TEST_CASE("a saved run is restored bit for bit, with its facts: every optimizer, both types, both modes") {
  for (const auto master : {at::kFloat, at::kDouble})
    for (const auto mode : {SaveMode::wait, SaveMode::background})
      for (const auto& [type, momentum] : {std::pair{Type::adamw, 0.0}, {Type::sgd, 0.9}, {Type::sgd, 0.0}}) {
        const test::TempFolder folder;
        Trained trained(type, momentum, master);
        trained.fill(0.1);
        const auto result = save(trained, folder.path(), mode);
        CHECK_FALSE(result.failure.has_value());
        CHECK(result.step == 4);
        CHECK(result.folder == folder / "step_000004");
        StoredCheckpoint stored(result.folder);
        CHECK(stored.manifest().progress == facts.progress);
        CHECK(stored.manifest().layout == facts.layout);
        CHECK(nlohmann::json::parse(stored.manifest().settings) == nlohmann::json::parse(facts.settings));
        CHECK(nlohmann::json::parse(stored.manifest().model) == nlohmann::json::parse(facts.model));
        CHECK(result.bytes == stored.bytes());
        Trained other(type, momentum, master);
        other.fill(-9);
        require_same_parameters(stored, parameters);
        const auto restored = restore(stored, other.store(), other.optimizer(), 0, 1);
        CHECK(other.holds(0.1));
        CHECK(other.optimizer().steps() == 3);
        CHECK(restored.absent.empty());
        CHECK(restored.bytes_read == restored.bytes_needed);
        CHECK(restored.bytes_needed == restored.bytes_verified);
      }
}

TEST_CASE("the same state gives the same bytes, waited for or in the background") {
  const test::TempFolder folder;
  Trained trained;
  trained.fill(0.3);
  for (const auto& [mode, name] : {std::pair{SaveMode::wait, "a"}, {SaveMode::background, "b"}}) {
    std::filesystem::create_directory(folder / name);
    CHECK_FALSE(save(trained, folder / name, mode).failure.has_value());
  }
  for (const char* file : {"manifest.json", "shard_00000.safetensors"})
    CHECK(base::read_file(folder / "a/step_000004" / file) == base::read_file(folder / "b/step_000004" / file));
}

TEST_CASE("a checkpoint of another type is rounded once, or widened") {
  for (const auto& [from, to] : {std::pair{at::kDouble, at::kFloat}, {at::kFloat, at::kDouble}}) {
    const test::TempFolder folder;
    Trained trained(Type::adamw, 0, from);
    trained.fill(1.0 / 3);
    StoredCheckpoint stored(save(trained, folder.path()).folder);
    Trained other(Type::adamw, 0, to);
    other.fill(7);
    static_cast<void>(restore(stored, other.store(), other.optimizer(), 0, 1));
    const auto saved = shard_states(trained.store(), trained.optimizer());
    const auto loaded = shard_states(other.store(), other.optimizer());
    for (std::size_t p = 0; p < saved.size(); ++p)
      for (std::size_t s = 0; s < saved[p].size(); ++s)
        CHECK(at::equal(loaded[p][s].tensor, saved[p][s].tensor.to(to)));
  }
}

TEST_CASE("moments that a checkpoint lacks stay as they are, are named, and the optimizer's count begins anew") {
  const test::TempFolder folder;
  Trained plain(Type::sgd);
  plain.fill(0.5);
  StoredCheckpoint stored(save(plain, folder.path()).folder);
  Trained adamw;
  adamw.optimizer().set_steps(99);
  for (const auto& moment : adamw.optimizer().state()) moment.tensor.fill_(0.125);
  const auto restored = restore(stored, adamw.store(), adamw.optimizer(), 0, 1);
  CHECK(restored.absent == std::vector<std::string>{"exp_avg", "exp_avg_sq"});
  CHECK(adamw.optimizer().steps() == 0);
  CHECK(at::equal(adamw.store().parameter("norm").master, plain.store().parameter("norm").master));
  for (const auto& moment : adamw.optimizer().state()) CHECK(moment.tensor.eq(0.125).all().item<bool>());
}

TEST_CASE("moments that this optimizer does not have are passed over") {
  const test::TempFolder folder;
  Trained adamw;
  adamw.fill(0.5);
  StoredCheckpoint stored(save(adamw, folder.path()).folder);
  Trained plain(Type::sgd);
  const auto restored = restore(stored, plain.store(), plain.optimizer(), 0, 1);
  CHECK(restored.absent.empty());
  CHECK(restored.bytes_needed == 4 * (35 + 5 + 30));
  CHECK(restored.bytes_verified == 3 * restored.bytes_needed);
  CHECK(plain.holds(0.5));
}

TEST_CASE("parameters that a checkpoint lacks, has beside the model's, or in another shape are all named") {
  const test::TempFolder folder;
  Trained trained;
  trained.fill(0.5);
  const StoredCheckpoint stored(save(trained, folder.path()).folder);
  CHECK(test::error_of([&] { require_same_parameters(stored, parameters); }) == "no error");
  const auto refusal = test::error_of([&] {
    require_same_parameters(stored, {{"embed", {7, 6}}, {"norm", {5, 1}}, {"router", {3, 5}}});
  });
  CHECK_THAT(refusal, Contains("step_000004 is of another model"));
  CHECK_THAT(refusal, Contains("embed is [7, 5] in it, and [7, 6] in the model"));
  CHECK_THAT(refusal, Contains("norm is [5] in it, and [5, 1] in the model"));
  CHECK_THAT(refusal, Contains("it has no router"));
  CHECK_THAT(refusal, Contains("the model has no experts"));
}

TEST_CASE("a damaged checkpoint is not restored from") {
  const test::TempFolder folder;
  Trained trained;
  trained.fill(0.5);
  const auto saved = save(trained, folder.path()).folder;
  auto text = base::read_file(saved / "shard_00000.safetensors");
  text.back() = static_cast<char>(text.back() ^ 16);
  folder.write("step_000004/shard_00000.safetensors", text);
  StoredCheckpoint stored(saved);
  Trained other;
  other.fill(7);
  CHECK_THAT(test::error_of([&] { restore(stored, other.store(), other.optimizer(), 0, 1); }),
             Contains("shard_00000.safetensors") && Contains("is damaged"));
  CHECK(other.holds(7));
}

}  // namespace
}  // namespace tessera::checkpoint

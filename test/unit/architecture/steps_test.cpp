// If this failed, the description of the model would be inconsistent: a segment would read a value that no segment
// writes, or no unit would gather a parameter.
#include "architecture/architecture.h"

#include <algorithm>
#include <map>
#include <set>

#include "support/catch.h"
#include "support/example_config.h"

namespace tessera::architecture {
namespace {

using config::BalanceLoss;
using K = ValueKind;

std::vector<ModelConfig> configs() {
  ModelConfig plain = test::example_config();
  ModelConfig biased = plain;
  biased.attention_bias = true;
  biased.tie_word_embeddings = true;
  ModelConfig dense = plain;
  dense.mlp_only_layers = {0, 1, 2};
  ModelConfig sparse = plain;
  sparse.mlp_only_layers = {};
  sparse.num_hidden_layers = 5;
  sparse.decoder_sparse_step = 2;
  return {plain, biased, dense, sparse};
}

std::vector<Step> steps_of(const ModelConfig& config, BalanceLoss balance) {
  return Architecture(config, balance).steps();
}

constexpr BalanceLoss balances[] = {BalanceLoss::pooled, BalanceLoss::per_layer, BalanceLoss::sequence};

TEST_CASE("every value is written once, before it is read") {
  for (const ModelConfig& config : configs())
    for (const BalanceLoss balance : balances) {
      std::set<ValueId> written{{K::ids}, {K::labels}, {K::positions}, {K::attention_starts}, {K::sequence_starts}};
      written.insert({K::balance_count});  // by the program, between the last layer and the head
      for (const Step& step : steps_of(config, balance)) {
        INFO(step.name());
        for (const ValueId id : step.reads) {
          INFO(name(id));
          CHECK(written.count(id) == 1);
        }
        for (const auto& [from, to] : step.moves) CHECK(written.count(from) == 1);
        for (const auto& [from, to] : step.moves) CHECK(written.insert(to).second);
        for (const ValueId id : step.writes) CHECK(written.insert(id).second);
      }
      CHECK(written.count({K::loss}) == 1);
    }
}

TEST_CASE("every value but statistics of other balance losses is read") {
  for (const ModelConfig& config : configs()) {
    std::set<ValueId> read, written;
    for (const Step& step : steps_of(config, BalanceLoss::sequence)) {
      read.insert(step.reads.begin(), step.reads.end());
      written.insert(step.writes.begin(), step.writes.end());
      for (const auto& [from, to] : step.moves) {
        read.insert(from);
        written.insert(to);
      }
    }
    for (const ValueId id : written) {
      INFO(name(id));
      CHECK((read.count(id) == 1 || id.kind == K::loss || id.kind == K::slot_choice));
    }
  }
}

TEST_CASE("the uses cover every parameter, once but for a tied head") {
  for (const ModelConfig& config : configs()) {
    const Architecture architecture(config, BalanceLoss::pooled);
    std::map<std::string, int> uses;
    for (const Step& step : architecture.steps())
      for (const ParameterUse& use : step.uses) ++uses[use.use.fqn];
    CHECK(uses.size() == architecture.parameters().size());
    for (const base::ParameterSpec& parameter : architecture.parameters()) {
      INFO(parameter.fqn);
      const bool twice = config.tie_word_embeddings && parameter.fqn == "model.embed_tokens.weight";
      CHECK(uses[parameter.fqn] == (twice ? 2 : 1));
    }
  }
}

TEST_CASE("a use carries the name that its segment has for the parameter") {
  ModelConfig config = test::example_config();
  config.tie_word_embeddings = true;
  for (const Step& step : steps_of(config, BalanceLoss::pooled))
    for (const ParameterUse& use : step.uses)
      if (use.name == "lm_head.weight") {
        CHECK(use.use == plan::Use{"model.embed_tokens.weight", plan::UseKind::whole});
      } else {
        CHECK(use.use.fqn == (step.layer < 0 ? std::string(use.name) : layer_fqn(step.layer, use.name)));
      }
}

TEST_CASE("experts and the lookup are owned, all else is whole") {
  for (const Step& step : steps_of(test::example_config(), BalanceLoss::pooled))
    for (const ParameterUse& use : step.uses) {
      const bool owned = step.kind == "experts" || step.kind == "lookup";
      CHECK(use.use.kind == (owned ? plan::UseKind::owned : plan::UseKind::whole));
    }
}

TEST_CASE("units are named by what they hold, experts apart") {
  const Architecture architecture(test::example_config(), BalanceLoss::pooled);
  std::vector<std::string> names;
  for (const plan::Unit& unit : architecture.units()) names.push_back(unit.name);
  CHECK(names == std::vector<std::string>{"embed", "layers.0.attention", "layers.1.attention", "layers.1.experts",
                                          "layers.2.attention", "layers.2.experts", "head"});
  for (const plan::Unit& unit : architecture.units())
    for (const plan::Use& use : unit.uses)
      CHECK((unit.name.find("experts") != std::string::npos) == (use.fqn.find(".experts.") != std::string::npos));
}

TEST_CASE("a tied head gathers the embedding a second time, beside the final norm") {
  ModelConfig config = test::example_config();
  config.tie_word_embeddings = true;
  const plan::Unit head = Architecture(config, BalanceLoss::pooled).units().back();
  CHECK(head.uses == std::vector<plan::Use>{{"model.norm.weight", plan::UseKind::whole},
                                            {"model.embed_tokens.weight", plan::UseKind::whole}});
}

TEST_CASE("the steps of a layer come in this order") {
  std::vector<std::string> names;
  for (const Step& step : steps_of(test::example_config(), BalanceLoss::pooled))
    if (step.layer <= 1) names.push_back(step.name());
  CHECK(names == std::vector<std::string>{"distinct_ids",
                                          "id_counts",
                                          "ids_to_owners",
                                          "lookup",
                                          "rows_from_owners",
                                          "expand",
                                          "project[0]",
                                          "sequence_to_heads[0]",
                                          "attend[0]",
                                          "heads_to_sequence[0]",
                                          "output_product[0]",
                                          "sum_tensor_parallel[0]",
                                          "dense[0]",
                                          "project[1]",
                                          "sequence_to_heads[1]",
                                          "attend[1]",
                                          "heads_to_sequence[1]",
                                          "output_product[1]",
                                          "sum_tensor_parallel[1]",
                                          "route[1]",
                                          "pack[1]",
                                          "row_counts[1]",
                                          "dispatch[1]",
                                          "experts[1]",
                                          "combine[1]",
                                          "merge[1]",
                                          "head"});
}

TEST_CASE("the head reads the counts of its balance loss, and none without experts") {
  const auto reads = [](const ModelConfig& config, BalanceLoss balance, K kind) {
    const auto steps = steps_of(config, balance);
    const auto& list = steps.back().reads;
    return std::count_if(list.begin(), list.end(), [&](ValueId id) { return id.kind == kind; });
  };
  const ModelConfig config = test::example_config();
  ModelConfig dense = config;
  dense.num_experts = 0;
  for (const BalanceLoss balance : balances) {
    const bool sequence = balance == BalanceLoss::sequence;
    CHECK(reads(config, balance, K::router_probability) == 2);
    CHECK(reads(config, balance, K::router_z) == 2);
    CHECK(reads(config, balance, K::router_count) == (sequence ? 2 : 0));
    CHECK(reads(config, balance, K::balance_count) == (sequence ? 0 : 1));
    CHECK(reads(config, balance, K::sequence_starts) == (sequence ? 1 : 0));
    for (const K kind : {K::router_probability, K::router_count, K::balance_count, K::sequence_starts})
      CHECK(reads(dense, balance, kind) == 0);
  }
}

}  // namespace
}  // namespace tessera::architecture

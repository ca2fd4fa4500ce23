#include "layout_case.h"

#include <algorithm>
#include <array>
#include <sstream>

namespace tessera::test {
namespace {

constexpr std::array groups{"none", "ep", "emb", "ep emb", "own", "ep emb own"};
constexpr std::array placements{"inner", "outer"};
constexpr std::array sizes{"smallest", "largest"};
constexpr std::array modes{"fsdp2", "fsdp2 kept", "zero2", "zero1", "ddp"};
constexpr std::array recomputes{"none", "full", "experts"};
constexpr std::array documents{"joined", "separate"};
constexpr std::array balances{"pooled", "per_layer", "sequence"};
constexpr std::array micro_steps{"one", "two", "uneven", "starving"};
constexpr std::array optimizers{"sgd", "adamw"};

template <class List, class Enum>
std::string word(const List& list, Enum value) {
  return list.at(static_cast<std::size_t>(value));
}

// Divisors of `ranks` above 1, ascending.
std::vector<std::int64_t> divisors(std::int64_t ranks) {
  std::vector<std::int64_t> list;
  for (std::int64_t d = 2; d <= ranks; ++d)
    if (ranks % d == 0) list.push_back(d);
  return list;
}

void append(Words& words, const Words& more) { words.insert(words.end(), more.begin(), more.end()); }

// What a run and its reference have in common.
Words common_words(const LayoutCase& c) {
  Words words{"--train.precision",
              "float64",
              "--train.global_batch_size",
              std::to_string(c.global_batch()),
              "--data.documents",
              word(documents, c.documents),
              "--model.balance_loss",
              word(balances, c.balance),
              "--model.tie_word_embeddings",
              c.head == Head::tied ? "true" : "false",
              "--model.router_z_loss_coef",
              "0.003",
              "--train.optimizer.type",
              word(optimizers, c.optimizer)};
  if (c.optimizer == Optimizer::sgd) append(words, {"--train.optimizer.lr", "0.05"});
  return words;
}

}  // namespace

std::int64_t LayoutCase::sequences_together() const {
  const auto rounded_up = [&](std::int64_t sequences) { return (sequences + world - 1) / world * world; };
  switch (micro_steps) {
    case MicroSteps::one:
    case MicroSteps::starving: return rounded_up(24);
    case MicroSteps::two: return rounded_up(12);
    case MicroSteps::uneven: return rounded_up(18);
  }
  return 0;
}

std::int64_t LayoutCase::global_batch() const {
  return micro_steps == MicroSteps::starving ? sequences_together() + 1 : 24;
}

std::vector<std::pair<std::string, std::int64_t>> LayoutCase::extra_groups() const {
  std::vector<std::string> names;
  if (groups == Groups::ep || groups == Groups::ep_emb || groups == Groups::all) names.emplace_back("ep");
  if (groups == Groups::emb || groups == Groups::ep_emb || groups == Groups::all) names.emplace_back("emb");
  if (groups == Groups::own || groups == Groups::all) names.emplace_back("own");
  const auto legal = divisors(world / replicas);
  std::vector<std::pair<std::string, std::int64_t>> list;
  for (std::size_t k = 0; k < names.size(); ++k) {
    const bool smallest = (sizes == Sizes::smallest) == (k % 2 == 0);
    list.emplace_back(names[k], smallest ? legal.front() : legal.back());
  }
  return list;
}

Words LayoutCase::words(const std::string& plan) const {
  const std::string a = "--train.accelerator.";
  auto words = common_words(*this);
  append(words, {"--train.micro_batch_size", std::to_string(sequences_together() / world)});
  if (replicas > 1)
    append(words,
           {a + "dp_replicate_size", std::to_string(replicas), a + "dp_shard_size", std::to_string(world / replicas)});
  Words names{a + "extra_parallel_names"}, numbers{a + "extra_parallel_sizes"};
  Words innermost{a + "extra_parallel_placement_innermost"};
  for (const auto& [name, size] : extra_groups()) {
    names.push_back(name);
    numbers.push_back(std::to_string(size));
    innermost.emplace_back(placement == Placement::inner ? "true" : "false");
  }
  if (names.size() > 1) {
    for (const auto* list : {&names, &numbers, &innermost}) append(words, *list);
    append(words, {a + "parallel_plan", plan});
  }
  const bool kept = mode == Mode::fsdp2_kept;
  append(words, {a + "fsdp_config.fsdp_mode", kept ? "fsdp2" : word(modes, mode)});
  if (kept) append(words, {a + "fsdp_config.reshard_after_forward", "false"});
  append(words, prefetch == 0 ? Words{a + "fsdp_config.forward_prefetch", "false"}
                              : Words{a + "fsdp_config.prefetch_depth", std::to_string(prefetch)});
  if (recompute != Recompute::none)
    append(words, {"--train.gradient_checkpointing.enable", "true", "--train.gradient_checkpointing.scope",
                   word(recomputes, recompute)});
  if (overlap == Overlap::on) append(words, {a + "overlap_exchange", "true"});
  if (buffers == Buffers::always_copied) append(words, {"--train.debug.poison_freed", "true"});
  return words;
}

Words LayoutCase::reference_words() const {
  auto words = common_words(*this);
  // Balance within each sequence does not ask how the batch is cut: the reference takes it whole.
  append(words, {"--train.micro_batch_size",
                 std::to_string(balance == Balance::sequence ? global_batch() : sequences_together())});
  return words;
}

std::string LayoutCase::describe() const {
  std::ostringstream text;
  text << world << " ranks, " << replicas << " replicas, groups " << word(test::groups, groups);
  for (const auto& [name, size] : extra_groups()) text << " " << name << "=" << size;
  text << " " << word(placements, placement) << ", " << word(modes, mode) << ", recompute "
       << word(recomputes, recompute) << ", overlap " << (overlap == Overlap::on ? "on" : "off") << ", "
       << word(test::documents, documents) << ", " << (head == Head::tied ? "tied" : "untied") << ", "
       << word(balances, balance) << ", micro-steps " << word(test::micro_steps, micro_steps) << ", "
       << word(optimizers, optimizer) << ", prefetch " << prefetch
       << (buffers == Buffers::bound ? "" : ", always copied");
  return text.str();
}

std::string plan_with_own_group() {
  return R"json({"extra_parallel_plan": {
    "ep": {"model.layers.*.mlp.experts.gate_proj": "Shard(0)", "model.layers.*.mlp.experts.up_proj": "Shard(0)",
           "model.layers.*.mlp.experts.down_proj": "Shard(0)"},
    "emb": {"model.embed_tokens.weight": "Shard(0)"},
    "own": {"model.layers.*.self_attn.o_proj.weight": "Shard(0)"}}})json";
}

std::vector<std::size_t> factor_sizes() { return {6, 2, 2, 2, 5, 3, 2, 2, 2, 3, 4, 2, 3, 2}; }

LayoutCase layout_case(std::int64_t world, const Choice& choice) {
  LayoutCase c;
  std::size_t k = 0;
  const auto next = [&] { return choice.at(k++); };
  c.world = world;
  c.groups = static_cast<Groups>(next());
  c.placement = static_cast<Placement>(next());
  c.sizes = static_cast<Sizes>(next());
  c.replicas = static_cast<std::int64_t>(next()) + 1;
  c.mode = static_cast<Mode>(next());
  c.recompute = static_cast<Recompute>(next());
  c.overlap = static_cast<Overlap>(next());
  c.documents = static_cast<Documents>(next());
  c.head = static_cast<Head>(next());
  c.balance = static_cast<Balance>(next());
  c.micro_steps = static_cast<MicroSteps>(next());
  c.optimizer = static_cast<Optimizer>(next());
  c.prefetch = static_cast<std::int64_t>(next());
  c.buffers = static_cast<Buffers>(next());
  return c;
}

bool is_legal(const LayoutCase& c) {
  if (c.world % c.replicas != 0) return false;
  return c.groups == Groups::none || c.world / c.replicas > 1;
}

std::vector<LayoutCase> covering_cases(std::int64_t world, std::size_t strength) {
  std::vector<LayoutCase> cases;
  for (const auto& choice :
       cover(factor_sizes(), strength, [&](const Choice& choice) { return is_legal(layout_case(world, choice)); }))
    cases.push_back(layout_case(world, choice));
  return cases;
}

}  // namespace tessera::test

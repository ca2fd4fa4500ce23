// If this failed, a program that lacks or misplaces an operation would be accepted: it would train another model and
// end without an error.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "meaning.h"
#include "program/order_checks.h"
#include "small_model.h"
#include "support/catch.h"

namespace tessera::program {
namespace {

using config::FsdpMode;
using test::Meaning;
using test::meaning_of;

struct Named {
  std::string name;
  Program program;
};

struct Sharing {
  std::string name;
  layout::LayoutSizes sizes;
  bool tied = false;
};

// One, two and four ranks: shards, replicas, experts and embedding among owners, and all of these together.
std::vector<Sharing> sharings() {
  using layout::GridPlacement;
  const auto extra = [](const char* name, std::int64_t size, GridPlacement placement = GridPlacement::innermost) {
    return layout::ExtraParallel{.name = name, .size = size, .placement = placement};
  };
  return {{"1 rank", {}},
          {"2 shards", {.dp_shard = 2, .extra = {}}},
          {"2 replicas", {.dp_replicate = 2, .extra = {}}},
          {"ep 2", {.dp_shard = 2, .extra = {extra("ep", 2)}}},
          {"emb 2, tied", {.dp_shard = 2, .extra = {extra("emb", 2)}}, true},
          {"2 replicas of 2 shards", {.dp_replicate = 2, .dp_shard = 2, .extra = {}}},
          {"2 replicas of 2 shards, tied", {.dp_replicate = 2, .dp_shard = 2, .extra = {}}, true},
          {"ep 2 of 4", {.dp_shard = 4, .extra = {extra("ep", 2, GridPlacement::outer)}}},
          {"ep 2 emb 4", {.dp_shard = 4, .extra = {extra("ep", 2), extra("emb", 4)}}},
          {"2 replicas of ep 2 emb 2, tied",
           {.dp_replicate = 2, .dp_shard = 2, .extra = {extra("ep", 2), extra("emb", 2)}},
           true}};
}

// Each sharing in each of five modes; the other options take turns of two, three, four, six and seven, so that each
// meets each mode.
std::vector<Named> programs() {
  std::vector<Named> list;
  std::int32_t turn = 0;
  for (const auto& sharing : sharings()) {
    for (const auto& [mode, reshards] : {std::pair{FsdpMode::fsdp2, true},
                                         {FsdpMode::fsdp2, false},
                                         {FsdpMode::zero2, true},
                                         {FsdpMode::zero1, true},
                                         {FsdpMode::ddp, true}}) {
      const auto masters = mode == FsdpMode::ddp ? plan::MasterSharding::whole : plan::MasterSharding::sharded;
      const auto balance = turn % 6 == 5 ? config::BalanceLoss::sequence : config::BalanceLoss::pooled;
      const test::SmallModel model(false, sharing.tied, balance, sharing.sizes, masters);
      BuilderOptions options{.micro_steps = 2, .mode = mode};
      options.reshard_after_forward = reshards;
      options.prefetch_depth = turn % 4 == 3 ? 8 : turn % 4;  // 8: more chains than a pass has
      options.recompute = static_cast<Recompute>(turn % 3);
      options.fusion = turn % 7 == 6 ? Fusion::none : Fusion::neighbours;
      options.overlap_exchange = turn % 2 == 1;
      list.push_back(
          {fmt::format("{}, mode {}, turn {}", sharing.name, static_cast<int>(mode), turn), model.build(options)});
      ++turn;
      if (mode != FsdpMode::fsdp2 || !reshards) continue;
      options.micro_steps = 1;
      list.push_back({sharing.name + ", a short last step", model.build(options)});
      options.kind = StepKind::evaluate;
      list.push_back({sharing.name + ", an evaluation", model.build(options)});
    }
  }
  return list;
}

bool is_sound(const Program& program) { return check_order(program, 1).empty(); }

Program without(Program program, std::vector<std::size_t> lines) {
  std::sort(lines.rbegin(), lines.rend());
  for (const auto line : lines)
    program.instructions.erase(program.instructions.begin() + static_cast<std::ptrdiff_t>(line));
  return program;
}

std::string text_of(const Program& program) { return fmt::format("{}", fmt::join(describe(program), "\n")); }

std::size_t wait_of(const Program& program, std::size_t start) {
  const auto& all = program.instructions;
  const auto found = std::find_if(
      all.begin(), all.end(), [&](const Instruction& i) { return i.op == Op::wait && i.ticket == all[start].ticket; });
  return static_cast<std::size_t>(found - all.begin());
}

// Programs that differ from a sound one by one change: each must be refused, or mean the same.
class Mutations {
 public:
  explicit Mutations(const Named& named) : named_(named), meaning_(meaning_of(named.program)) {}

  // Returns whether `changed` is accepted; `what` says how it differs.
  template <class What>
  bool is_accepted(const Program& changed, const What& what) {
    ++made_;
    if (!is_sound(changed)) return false;
    ++accepted_;
    if (meaning_of(changed) != meaning_) {
      INFO(named_.name << ":\n" << text_of(named_.program));
      FAIL_CHECK(what() << " is accepted, and trains another model");
    }
    return true;
  }
  [[nodiscard]] std::int64_t made() const { return made_; }
  [[nodiscard]] std::int64_t accepted() const { return accepted_; }

 private:
  const Named& named_;
  Meaning meaning_;
  std::int64_t made_ = 0, accepted_ = 0;
};

TEST_CASE("every program of one, two and four ranks is sound, and its meaning certain") {
  for (const auto& [name, program] : programs()) {
    INFO(name << ":\n" << text_of(program));
    CHECK(check_order(program) == std::vector<std::string>{});
    const auto meaning = meaning_of(program);
    CHECK_FALSE(meaning.is_uncertain);
    CHECK(meaning.left.size() == program.results.size());
  }
}

// A reduction may be left out if a later one takes its gradients too: the buffer keeps them, as zero1 has it.
bool is_reduced_later(const Program& program, std::size_t line) {
  const auto& all = program.instructions;
  const auto& left_out = all[line];
  return left_out.op == Op::reduce &&
         std::any_of(all.begin() + static_cast<std::ptrdiff_t>(line) + 1, all.end(),
                     [&](const Instruction& i) { return i.op == Op::reduce && i.target == left_out.target; });
}

TEST_CASE("no instruction and no operation can be left out, but a reduction that a later one makes good") {
  std::int64_t accepted = 0;
  for (const auto& named : programs()) {
    const auto& program = named.program;
    Mutations mutations(named);
    for (std::size_t k = 0; k < program.instructions.size(); ++k) {
      const auto line = [&, k] { return describe(program, program.instructions[k]) + ", left out,"; };
      CHECK_FALSE(mutations.is_accepted(without(program, {k}), line));
      const auto reason = check_order(without(program, {k}), 1);
      CHECK_THAT(reason.empty() ? "" : reason.front(), Catch::Matchers::ContainsSubstring("missing"));
      if (!is_started(program.instructions[k].op)) continue;
      const bool is_harmless = mutations.is_accepted(without(program, {k, wait_of(program, k)}), line);
      INFO(named.name << ", without " << describe(program, program.instructions[k]) << " and its Wait");
      CHECK(is_harmless == is_reduced_later(program, k));
    }
    accepted += mutations.accepted();
  }
  CHECK(accepted > 50);
}

TEST_CASE("nothing can be done twice") {
  for (const auto& named : programs()) {
    const auto& program = named.program;
    Mutations mutations(named);
    for (std::size_t k = 0; k < program.instructions.size(); ++k) {
      const auto& original = program.instructions[k];
      const auto line = [&] { return describe(program, original) + ", made twice,"; };
      const auto with = [&](std::size_t before, std::vector<Instruction> more) {
        auto longer = program;
        longer.instructions.insert(longer.instructions.begin() + static_cast<std::ptrdiff_t>(before), more.begin(),
                                   more.end());
        return longer;
      };
      CHECK_FALSE(mutations.is_accepted(with(k, {original}), line));
      if (!is_started(original.op)) continue;
      const auto last = wait_of(program, k);
      auto start = original, wait = program.instructions[last];
      start.ticket = wait.ticket = 1000000;
      CHECK_FALSE(mutations.is_accepted(with(k, {start, wait}), line));
      CHECK_FALSE(mutations.is_accepted(with(last + 1, {start, wait}), line));
    }
  }
}

// Every instruction to every other place; every operation as a whole, its wait right behind its start, too.
void check_moves(const Named& named, Mutations& mutations) {
  const auto& program = named.program;
  for (std::size_t from = 0; from < program.instructions.size(); ++from) {
    const auto& instruction = program.instructions[from];
    std::vector<std::vector<std::size_t>> moved{{from}};
    if (is_started(instruction.op)) moved.push_back({from, wait_of(program, from)});
    for (const auto& lines : moved) {
      auto changed = without(program, lines);
      std::vector<Instruction> block;
      for (const auto line : lines) block.push_back(program.instructions[line]);
      changed.instructions.insert(changed.instructions.begin(), block.begin(), block.end());
      for (std::size_t to = 0;; ++to) {
        mutations.is_accepted(changed, [&] {
          return fmt::format("{}, {} instructions of it, moved to line {},", describe(program, instruction),
                             lines.size(), to);
        });
        if (to + lines.size() == changed.instructions.size()) break;
        const auto at = changed.instructions.begin() + static_cast<std::ptrdiff_t>(to);
        const auto behind = at + static_cast<std::ptrdiff_t>(lines.size());
        std::rotate(at, behind, behind + 1);
      }
    }
  }
}

TEST_CASE("what is moved to another place is refused there, or trains the same model") {
  const auto all = programs();
  std::int64_t made = 0, accepted = 0;
  for (std::size_t k = 0; k < all.size(); k += 5) {
    Mutations mutations(all[k]);
    check_moves(all[k], mutations);
    made += mutations.made();
    accepted += mutations.accepted();
  }
  CHECK(made > 100000);
  CHECK(accepted > 5000);
}

// ---- the faults that passed once, by their messages

Program four_ranks() {
  const test::SmallModel model(false, false, config::BalanceLoss::pooled,
                               {.dp_replicate = 2, .dp_shard = 2, .extra = {}});
  return model.build({.micro_steps = 2});
}

std::size_t line_of(const Program& program, const std::string& line) {
  const auto lines = describe(program);
  const auto found = std::find(lines.begin(), lines.end(), line);
  REQUIRE(found != lines.end());
  return static_cast<std::size_t>(found - lines.begin());
}

// `line` and its wait, in front of `before`.
Program moved_before(Program program, const std::string& line, const std::string& before) {
  const auto start = line_of(program, line);
  const std::vector<Instruction> block{program.instructions[start], program.instructions[wait_of(program, start)]};
  program = without(program, {start, wait_of(program, start)});
  const auto at = program.instructions.begin() + static_cast<std::ptrdiff_t>(line_of(program, before));
  program.instructions.insert(at, block.begin(), block.end());
  return program;
}

void check_refused(const Program& program, const std::string& reason) {
  const auto faults = fmt::format("{}", fmt::join(check_order(program), "\n"));
  CHECK_THAT(faults, Catch::Matchers::ContainsSubstring(reason));
  CHECK(meaning_of(program) != meaning_of(four_ranks()));
}

TEST_CASE("a sum over replicas that is missing, too early or behind close is named") {
  const auto program = four_ranks();
  const std::string sum = "Sum replicas layers.0.attention over dp_replicate", close = "Sum close over world";
  const auto start = line_of(program, sum);
  const std::string missing =
      "Sum close over world: reads shard gradients of layers.0.attention of this rank alone: "
      "Sum replicas layers.0.attention is missing before";
  check_refused(without(program, {start, wait_of(program, start)}), missing);
  check_refused(moved_before(program, close, sum), missing);
  check_refused(
      moved_before(program, sum, "Reduce m1 layers.0.attention over fsdp"),
      "Wait Reduce m1 layers.0.attention: adds to shard gradients of layers.0.attention after Sum replicas has "
      "taken them");
}

TEST_CASE("a reduction behind close, and what starts before the step is open, are named") {
  const auto program = four_ranks();
  check_refused(moved_before(program, "Sum close over world", "Reduce m1 embed over fsdp"),
                "Wait Reduce m1 embed: adds to shard gradients of embed after Sum close has read them");
  check_refused(moved_before(program, "Gather embed over fsdp", "Sum open over world"),
                "Gather embed over fsdp: the step may end with Sum open: its Wait is missing before");
}

TEST_CASE("a unit that is gathered while an earlier gather of it is under way is refused") {
  auto program = four_ranks();
  const auto first = line_of(program, "Wait Gather embed");
  auto again = program.instructions[line_of(program, "Gather embed over fsdp")];
  again.ticket = 1000000;
  program.instructions.insert(program.instructions.begin() + static_cast<std::ptrdiff_t>(first), again);
  check_refused(program, "Gather embed over fsdp: weights of embed are there already: Free is missing");
}

}  // namespace
}  // namespace tessera::program

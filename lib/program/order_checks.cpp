#include "program/order_checks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

#include "base/error.h"
#include "program/resource_numbers.h"

namespace tessera::program {

namespace {

class Checker {
 public:
  explicit Checker(const Program& program) : program_(program), numbers_(program), live_(numbers_), freed_(numbers_) {
    for (const auto& r : program.inputs) live_.insert(r);
    for (const auto& i : program.instructions)
      if (i.op == Op::wait) waits_[i.ticket] = &i;
  }

  std::vector<std::string> check(std::size_t enough) {
    for (line_ = 0; line_ < program_.instructions.size(); ++line_) {
      check_instruction(program_.instructions[line_]);
      if (faults_.size() >= enough) return std::move(faults_);
    }
    for (const auto& [ticket, start] : in_flight_)
      faults_.push_back(fmt::format("{} is never waited for: Wait is missing", describe(program_, *start)));
    for (const auto& r : program_.results)
      if (!live_.erase(r)) faults_.push_back(fmt::format("the result {} is missing", name(program_, r)));
    check_all_freed(program_.inputs);
    for (const auto& i : program_.instructions) {
      check_all_freed(i.writes);
      check_all_freed(i.adds);
    }
    return std::move(faults_);
  }

 private:
  void fault(const Instruction& i, const std::string& what) {
    faults_.push_back(fmt::format("line {}: {}: {}", line_, describe(program_, i), what));
  }

  // Of what was made once, after the last instruction.
  void check_all_freed(const std::vector<Resource>& list) {
    for (const auto& r : list)
      if (live_.erase(r))
        faults_.push_back(fmt::format("{} is never freed: {} is missing", name(program_, r), consumer(r)));
  }

  void check_instruction(const Instruction& i) {
    if (i.op == Op::wait) finish(i);
    check_opened(i);
    for (const auto& r : i.reads)
      if (!live_.contains(r))
        fault(i, fmt::format("{} is {}", name(program_, r),
                             freed_.contains(r) ? "freed already: what makes it again is missing" : "missing"));
    for (const auto& r : i.reads) check_not_under_way(i, r);
    for (const auto* list : {&i.writes, &i.adds, &i.frees})
      for (const auto& r : *list) check_not_in_use(i, r);
    for (const auto& r : i.adds) check_no_other_sum(i, r);
    for (const auto& r : i.adds) check_not_complete(i, r);
    for (const auto& r : i.writes) {
      if (live_.contains(r)) fault(i, name(program_, r) + " is there already: Free is missing");
      make(r);
    }
    for (const auto& r : i.adds) make(r);
    for (const auto& r : i.frees) {
      if (!live_.erase(r)) fault(i, fmt::format("frees {}, which is missing", name(program_, r)));
      freed_.insert(r);
    }
    if (is_started(i.op)) start(i);
  }

  void make(const Resource& r) {
    live_.insert(r);
    freed_.erase(r);
  }

  void start(const Instruction& i) {
    if (i.op == Op::gather) check_gathered_once(i);
    if (is_sum(i, SumKind::replicas) && !summed_.insert(i.target).second)
      fault(i, "sums replicas that are summed already");
    if (is_sum(i, SumKind::close)) close(i);
    if (!in_flight_.emplace(i.ticket, &i).second) return fault(i, "is under way already");
    note(i);
  }

  void check_gathered_once(const Instruction& gather) {
    const auto weights = resource(ResourceKind::weights, gather.target);
    const bool is_under_way = std::any_of(in_flight_.begin(), in_flight_.end(), [&](const auto& other) {
      return other.second->op == Op::gather && other.second->target == gather.target;
    });
    if (is_under_way || live_.contains(weights))
      fault(gather, name(program_, weights) + " are there already: Free is missing");
  }

  static bool is_sum(const Instruction& i, SumKind kind) {
    return (i.op == Op::sum || (i.op == Op::wait && i.waits_for == Op::sum)) && i.sum == kind;
  }

  // All ranks may end a step with *open*: nothing else may be under way or half done then.
  void check_opened(const Instruction& i) {
    if (is_opened_) return;
    is_opened_ = i.op == Op::wait || !is_sum(i, SumKind::open);
    if (is_opened_ && !is_sum(i, SumKind::open)) fault(i, "the step may end with Sum open: its Wait is missing before");
  }

  // What is complete may not change any more, though the memory is still there.
  void check_not_complete(const Instruction& i, const Resource& r) {
    if (r.kind != ResourceKind::shard_gradient || is_sum(i, SumKind::replicas)) return;
    if (summed_.contains(r.index))
      fault(i, fmt::format("adds to {} after Sum replicas has taken them", name(program_, r)));
    if (is_closed_) fault(i, fmt::format("adds to {} after Sum close has read them", name(program_, r)));
  }

  // The norms are those of gradients that no rank will add to, this rank's replicas included.
  void close(const Instruction& i) {
    is_closed_ = true;
    for (const auto& r : i.reads) {
      if (r.kind != ResourceKind::shard_gradient || summed_.contains(r.index)) continue;
      const auto unit = static_cast<std::size_t>(r.index);
      if (!program_.replica_groups.at(unit).empty())
        fault(i, fmt::format("reads {} of this rank alone: Sum replicas {} is missing before", name(program_, r),
                             program_.units.at(unit)));
    }
  }

  void finish(const Instruction& wait) {
    const auto found = in_flight_.find(wait.ticket);
    if (found == in_flight_.end() || found->second->op != wait.waits_for || found->second->target != wait.target)
      return fault(wait, fmt::format("{} was not started: it is missing", describe(program_, wait).substr(5)));
    forget(*found->second);
    in_flight_.erase(found);
  }

  // What an operation under way reads must stay as it is until its wait.
  void check_not_in_use(const Instruction& i, const Resource& r) {
    for (const auto* start : found_in(reading_, r))
      fault(i, fmt::format("changes {} while {} reads it: its Wait is missing before", name(program_, r),
                           describe(program_, *start)));
  }

  // What an operation under way adds to is there already, but not yet what its readers want.
  void check_not_under_way(const Instruction& i, const Resource& r) {
    for (const auto* start : found_in(adding_, r))
      fault(i, fmt::format("reads {} while {} adds to it: its Wait is missing before", name(program_, r),
                           describe(program_, *start)));
  }

  // Two sums into the same memory at once race, or come in any order.
  void check_no_other_sum(const Instruction& i, const Resource& r) {
    if (r.kind != ResourceKind::shard_gradient) return;
    for (const auto* start : found_in(adding_, r))
      fault(i, fmt::format("adds to {} while {} does: its Wait is missing before", name(program_, r),
                           describe(program_, *start)));
  }

  using Starts = std::vector<const Instruction*>;
  using StartsByResource = std::map<Resource, Starts>;

  [[nodiscard]] static Starts found_in(const StartsByResource& starts, const Resource& r) {
    const auto found = starts.find(r);
    return found == starts.end() ? Starts() : found->second;
  }

  // Keeps reading_ and adding_ as in_flight_ is.
  void note(const Instruction& start) {
    for (const auto& r : start.reads) reading_[r].push_back(&start);
    if (const auto wait = waits_.find(start.ticket); wait != waits_.end())
      for (const auto& r : wait->second->adds) adding_[r].push_back(&start);
  }
  void forget(const Instruction& start) {
    const auto erase = [&](StartsByResource& starts, const Resource& r) {
      auto& list = starts[r];
      std::erase(list, &start);
      if (list.empty()) starts.erase(r);
    };
    for (const auto& r : start.reads) erase(reading_, r);
    if (const auto wait = waits_.find(start.ticket); wait != waits_.end())
      for (const auto& r : wait->second->adds) erase(adding_, r);
  }

  static std::string consumer(const Resource& r) {
    switch (r.kind) {
      case ResourceKind::weights: return "Free";
      case ResourceKind::weight_gradient: return "Reduce";
      case ResourceKind::gradient:
      case ResourceKind::graph: return "Backward";
      case ResourceKind::shard_gradient:
      case ResourceKind::clip_factor: return "Update";
      case ResourceKind::totals: return "its reader";
      case ResourceKind::losses: return "Sum close";
      case ResourceKind::value:
      case ResourceKind::masters: return "its last reader";
    }
    return {};
  }

  const Program& program_;
  std::size_t line_ = 0;
  bool is_opened_ = false, is_closed_ = false;  // *open* has ended, *close* has started
  std::set<std::int32_t> summed_;               // units whose sum over replicas has started
  ResourceNumbers numbers_;
  ResourceSet live_, freed_;
  std::unordered_map<std::int32_t, const Instruction*> waits_;  // by ticket
  std::map<std::int32_t, const Instruction*> in_flight_;        // by ticket
  StartsByResource reading_, adding_;                           // of those in flight
  std::vector<std::string> faults_;
};

}  // namespace

std::vector<std::string> check_order(const Program& program, std::size_t enough) {
  return Checker(program).check(enough);
}

void expect_sound(const Program& program) {
  const auto faults = check_order(program);
  if (faults.empty()) return;
  const auto shown = std::min<std::size_t>(faults.size(), 5);
  base::expect(false, "the program of a step cannot run ({} faults):\n  {}", faults.size(),
               fmt::join(faults.begin(), faults.begin() + static_cast<std::ptrdiff_t>(shown), "\n  "));
}

}  // namespace tessera::program

#include "meaning.h"

#include <algorithm>
#include <vector>

namespace tessera::test {
namespace {

using program::Instruction;
using program::Op;
using program::Resource;
using program::ResourceKind;
using program::SumKind;

std::uint64_t mixed(std::uint64_t seed, std::uint64_t value) {
  auto x = (seed ^ value) + 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

template <class Integer>
std::uint64_t bits(Integer value) {
  return static_cast<std::uint64_t>(value);
}

std::uint64_t mixed(std::uint64_t seed, const Resource& r) {
  for (const auto part : {bits(r.kind), bits(r.micro), bits(r.index), bits(r.value.kind), bits(r.value.layer)})
    seed = mixed(seed, part);
  return seed;
}

bool contains(const std::vector<Resource>& list, const Resource& r) {
  return std::find(list.begin(), list.end(), r) != list.end();
}

class Machine {
 public:
  explicit Machine(const program::Program& program) : program_(program) {
    for (const auto& r : program.inputs) meaning_.left[r] = mixed(0, r);
    for (const auto& i : program.instructions)
      if (i.op == Op::wait) waits_[i.ticket] = &i;
  }

  Meaning run() {
    for (const auto& i : program_.instructions) execute(i);
    if (!under_way_.empty()) meaning_.is_uncertain = true;
    return std::move(meaning_);
  }

 private:
  struct UnderWay {
    const Instruction* start;
    std::uint64_t term;                // of what it read when it started
    std::vector<std::uint64_t> reads;  // the same one by one
  };

  void execute(const Instruction& i) {
    check_access(i);
    if (is_started(i.op)) return start(i);
    if (i.op == Op::wait) {
      finish(i);
    } else {
      const auto term = term_of(i);
      for (const auto& r : i.writes) write(r, mixed(term, r));
      for (const auto& r : i.adds) meaning_.left[r] += mixed(term, r);
    }
    for (const auto& r : i.frees)
      if (meaning_.left.erase(r) == 0) meaning_.is_uncertain = true;
    if (i.op == Op::wait && i.waits_for == Op::sum && i.sum == SumKind::open) {
      meaning_.left_by_open = meaning_.left;
      if (!under_way_.empty()) meaning_.is_uncertain = true;
    }
  }

  // Values of a running operation may change, or still be read, at any time.
  void check_access(const Instruction& i) {
    for (const auto& [ticket, operation] : under_way_) {
      if (i.op == Op::wait && i.ticket == ticket) continue;
      for (const auto* list : {&i.writes, &i.adds, &i.frees})
        for (const auto& r : *list)
          if (contains(operation.start->reads, r)) meaning_.is_uncertain = true;
      for (const auto* list : {&i.reads, &i.writes, &i.adds, &i.frees})
        for (const auto& r : *list)
          if (is_written_under_way(ticket, r)) meaning_.is_uncertain = true;
    }
  }

  // Gathers, reductions and sums over replicas go straight into this memory; all else is put in place by the wait.
  [[nodiscard]] bool is_written_under_way(std::int32_t ticket, const Resource& r) const {
    if (r.kind != ResourceKind::shard_gradient && r.kind != ResourceKind::weights) return false;
    const auto wait = waits_.find(ticket);
    return wait != waits_.end() && (contains(wait->second->writes, r) || contains(wait->second->adds, r));
  }

  void start(const Instruction& i) {
    if (i.op == Op::gather && meaning_.left.contains({.kind = ResourceKind::weights, .index = i.target, .value = {}}))
      meaning_.is_uncertain = true;
    const auto term = term_of(i);
    std::vector<std::uint64_t> reads;
    for (const auto& r : i.reads) reads.push_back(read(r));
    if (!under_way_.emplace(i.ticket, UnderWay{&i, term, std::move(reads)}).second) meaning_.is_uncertain = true;
  }

  void finish(const Instruction& wait) {
    const auto found = under_way_.find(wait.ticket);
    if (found == under_way_.end()) {
      meaning_.is_uncertain = true;
      return;
    }
    const auto operation = std::move(found->second);
    under_way_.erase(found);
    for (const auto& r : wait.writes) write(r, mixed(operation.term, r));
    for (const auto& r : wait.adds) meaning_.left[r] = sum(operation, r);
  }

  std::uint64_t sum(const UnderWay& operation, const Resource& r) {
    const auto& start = *operation.start;
    const auto before = meaning_.left[r];
    if (start.op == Op::reduce) return before + odd(r, bits(start.target)) * operation.reads.at(0);
    if (start.op == Op::sum && start.sum == SumKind::replicas) return before * odd(r, 0);
    return before + mixed(operation.term, r);
  }

  static std::uint64_t odd(const Resource& r, std::uint64_t seed) { return mixed(seed, r) | 1; }

  std::uint64_t term_of(const Instruction& i) {
    auto term = mixed(bits(i.op), bits(i.sum));
    for (const auto part : {bits(i.direction), bits(i.micro), bits(i.target)}) term = mixed(term, part);
    for (const auto& r : i.reads) term = mixed(mixed(term, r), read(r));
    // A gather reads the masters, which an update changes.
    const Resource masters{.kind = ResourceKind::masters, .index = i.target, .value = {}};
    if (i.op == Op::gather && meaning_.left.contains(masters)) term = mixed(term, read(masters));
    return term;
  }

  std::uint64_t read(const Resource& r) {
    const auto found = meaning_.left.find(r);
    if (found != meaning_.left.end()) return found->second;
    meaning_.is_uncertain = true;
    return 0;
  }

  void write(const Resource& r, std::uint64_t value) {
    if (!meaning_.left.insert_or_assign(r, value).second) meaning_.is_uncertain = true;
  }

  const program::Program& program_;
  std::map<std::int32_t, const Instruction*> waits_;
  std::map<std::int32_t, UnderWay> under_way_;  // by ticket
  Meaning meaning_;
};

}  // namespace

Meaning meaning_of(const program::Program& program) { return Machine(program).run(); }

}  // namespace tessera::test

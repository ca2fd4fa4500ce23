// If this failed, an exception in the middle of a step would free memory that running collectives still read and write:
// the job would end by a crash, or with another rank's complaint, instead of its cause.
#include <malloc.h>

#include <algorithm>
#include <cstring>
#include <list>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include "support/catch.h"
#include "support/small_run.h"

namespace tessera::test {
namespace {

using comm::ElementType;

// Memory of an operation, and what it held when the step was abandoned.
struct Region {
  const std::byte* place;
  std::size_t bytes;
  std::vector<std::byte> content = {};

  [[nodiscard]] bool is_as_it_was() const { return std::memcmp(place, content.data(), bytes) == 0; }
};

struct UnderWay {
  std::vector<Region> regions;
  comm::KeepAlive keep;
};

class Abandoned : public std::runtime_error {
 public:
  Abandoned() : std::runtime_error("a fault while operations are under way") {}
};

// The operations that have started and not been waited for. The wait after `waits_left` others throws.
struct Ledger {
  std::list<UnderWay> under_way;
  int waits_left = -1;  // below 0: never

  void abandon() {
    for (auto& operation : under_way)
      for (auto& region : operation.regions) region.content.assign(region.place, region.place + region.bytes);
    throw Abandoned();
  }
};

class Entry final : public comm::Operation {
 public:
  Entry(std::shared_ptr<Ledger> ledger, std::list<UnderWay>::iterator place)
      : ledger_(std::move(ledger)), place_(place) {}
  void wait() override {
    if (ledger_->waits_left >= 0 && ledger_->waits_left-- == 0) ledger_->abandon();
    ledger_->under_way.erase(place_);
  }
  [[nodiscard]] comm::Span span() const override { return {}; }

 private:
  std::shared_ptr<Ledger> ledger_;
  std::list<UnderWay>::iterator place_;
};

// The first rank of a group whose other ranks have nothing but zeros, and whose operations go on for ever after the
// wait that throws.
class LonelyRank final : public comm::Communicator {
 public:
  LonelyRank(std::shared_ptr<Ledger> ledger, std::int64_t size) : ledger_(std::move(ledger)), size_(size) {}

  [[nodiscard]] std::int64_t rank() const override { return 0; }
  [[nodiscard]] std::int64_t size() const override { return size_; }
  comm::Handle gather_blocks(std::vector<comm::GatherBlock> blocks, comm::KeepAlive keep) override {
    UnderWay operation{.regions = {}, .keep = std::move(keep)};
    for (const auto& block : blocks)
      for (std::size_t k = 0; k < block.pieces.size(); ++k) add(operation, block.pieces[k], block.type, k > 0);
    return entry(std::move(operation));
  }
  comm::Handle reduce_blocks(std::vector<comm::ReduceBlock> blocks, comm::KeepAlive keep) override {
    UnderWay operation{.regions = {}, .keep = std::move(keep)};
    for (const auto& block : blocks) {
      for (const auto& piece : block.pieces) add(operation, piece, block.type, false);
      add(operation, block.sum, block.sum_type, false);
    }
    return entry(std::move(operation));
  }
  comm::Handle all_reduce(void* data, std::int64_t elements, ElementType type, comm::ReduceOperation,
                          comm::KeepAlive keep) override {
    UnderWay operation{.regions = {}, .keep = std::move(keep)};
    add(operation, {data, 1, elements, elements}, type, false);
    return entry(std::move(operation));
  }
  comm::Handle all_to_all_rows(const void* send, std::span<const std::int64_t> send_counts, void* receive,
                               std::span<const std::int64_t> receive_counts, std::int64_t row_elements,
                               ElementType type, comm::KeepAlive keep) override {
    UnderWay operation{.regions = {}, .keep = std::move(keep)};
    const auto all = [&](std::span<const std::int64_t> counts) {
      std::int64_t rows = 0;
      for (const auto count : counts) rows += count;
      return rows * row_elements;
    };
    add(operation, {const_cast<void*>(send), 1, all(send_counts), all(send_counts)}, type, false);
    add(operation, {receive, 1, all(receive_counts), all(receive_counts)}, type, true);
    return entry(std::move(operation));
  }
  comm::Handle broadcast(void* data, std::int64_t elements, ElementType type, std::int64_t,
                         comm::KeepAlive keep) override {
    return all_reduce(data, elements, type, comm::ReduceOperation::add, std::move(keep));
  }
  void barrier() override {}
  std::shared_ptr<comm::Communicator> make_group(std::span<const std::int64_t> ranks) override {
    return std::make_shared<LonelyRank>(ledger_, std::ssize(ranks));
  }
  void set_name(std::string_view) override {}
  void set_label(std::string_view) override {}

 private:
  static void add(UnderWay& operation, const comm::Strided& piece, ElementType type, bool is_zeroed) {
    const auto element = comm::element_bytes(type);
    for (std::int64_t row = 0; row < piece.rows && piece.row_elements > 0; ++row) {
      auto* const place =
          static_cast<std::byte*>(piece.data) + static_cast<std::size_t>(row * piece.stride_elements) * element;
      const auto bytes = static_cast<std::size_t>(piece.row_elements) * element;
      if (is_zeroed) std::memset(place, 0, bytes);
      operation.regions.push_back({.place = place, .bytes = bytes});
    }
  }
  comm::Handle entry(UnderWay operation) {
    ledger_->under_way.push_back(std::move(operation));
    return std::make_unique<Entry>(ledger_, std::prev(ledger_->under_way.end()));
  }

  std::shared_ptr<Ledger> ledger_;
  std::int64_t size_;
};

// While it lives, freed memory is overwritten (an address sanitizer would find its use anyway).
class FreedMemoryOverwritten {
 public:
  FreedMemoryOverwritten() { mallopt(M_PERTURB, 0x5b); }
  ~FreedMemoryOverwritten() { mallopt(M_PERTURB, 0); }
  FreedMemoryOverwritten(const FreedMemoryOverwritten&) = delete;
  FreedMemoryOverwritten& operator=(const FreedMemoryOverwritten&) = delete;
};

// A step of two ranks, abandoned at each of its waits in turn. Returns how many waits it has.
int abandon_everywhere(const config::Settings& settings) {
  for (int waits = 0;; ++waits) {
    const auto ledger = std::make_shared<Ledger>();
    bool is_abandoned = false;
    try {
      Start start(settings, std::make_shared<LonelyRank>(ledger, 2));
      auto step = start.steps(1).front();
      ledger->waits_left = waits;
      static_cast<void>(start.assembly().executor().run(
          start.assembly().program(program::StepKind::train, step.windows), std::move(step.inputs)));
    } catch (const Abandoned&) {
      is_abandoned = true;
    }
    if (!is_abandoned) return waits;
    REQUIRE_FALSE(ledger->under_way.empty());
    for (const auto& operation : ledger->under_way)
      CHECK(std::all_of(operation.regions.begin(), operation.regions.end(),
                        [](const Region& region) { return region.is_as_it_was(); }));
  }
}

TEST_CASE("a step that an exception ends leaves alone the memory that collectives under way read and write") {
  const FreedMemoryOverwritten overwritten;
  const SmallRun files;
  const Words groups{"--train.accelerator.extra_parallel_names", "ep", "--train.accelerator.extra_parallel_sizes", "2",
                     "--train.accelerator.fsdp_config.fsdp_mode"};
  for (const char* mode : {"fsdp2", "ddp"}) {
    INFO(mode);
    CHECK(abandon_everywhere(files.settings(joined(groups, {mode}))) > 20);
  }
  for (const char* norm : {"inf", "3"})
    CHECK(abandon_everywhere(files.settings({"--train.optimizer.norm_type", norm})) > 20);
}

}  // namespace
}  // namespace tessera::test

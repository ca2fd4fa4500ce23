#include "checkpoint/saver.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <functional>
#include <span>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "checkpoint/folder.h"

namespace tessera::checkpoint {
namespace {

constexpr std::int64_t numbers_before_hashes = 2;
constexpr std::size_t joined_bytes = 1 << 20;

ElementType element_type(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kFloat: return ElementType::F32;
    case at::kDouble: return ElementType::F64;
    default: base::expect(false, "masters are float32 or float64, not {}", c10::toString(tensor.scalar_type()));
  }
  return {};
}

std::string file_name(std::int64_t rank) { return fmt::format("shard_{:05}.safetensors", rank); }

// Keeps a promise when it goes out of scope, however it does.
class KeptPromise {
 public:
  explicit KeptPromise(std::shared_ptr<std::promise<void>> promise) : promise_(std::move(promise)) {}
  ~KeptPromise() { promise_->set_value(); }
  KeptPromise(const KeptPromise&) = delete;
  KeptPromise& operator=(const KeptPromise&) = delete;

 private:
  std::shared_ptr<std::promise<void>> promise_;
};

// The first failure among the ranks, on all of them.
std::optional<std::string> agreed(comm::Communicator& world, const std::optional<comm::Failure>& failure) {
  try {
    comm::agree(world, failure);
  } catch (const comm::AgreedError& error) {
    return error.what();
  }
  return std::nullopt;
}

std::optional<comm::Failure> failure_of(const std::function<void()>& action) {
  try {
    action();
  } catch (...) {
    return comm::describe_failure(std::current_exception());
  }
  return std::nullopt;
}

}  // namespace

Saver::Saver(SaverOptions options, const fsdp::ParameterStore& store, optim::Optimizer& optimizer,
             const layout::Layout& layout, comm::Communicator& world, base::FileSystem& files)
    : options_(std::move(options)),
      store_(store),
      optimizer_(optimizer),
      layout_(layout),
      world_(world),
      files_(files) {
  std::int64_t count = 0;
  for (std::int64_t rank = 0; rank < layout_.world(); ++rank) {
    bool writes = false;
    for (std::size_t k = 0; k < store_.parameters().size() && !writes; ++k)
      writes = written_box(store_.parameters()[k].placement, k, layout_, rank).elements() > 0;
    file_of_rank_.push_back(writes ? count++ : -1);
  }
}

Saver::~Saver() {
  optimizer_.before_next_step(nullptr);
  is_abandoned_ = true;
  if (running_.valid()) running_.wait();
}

std::vector<Saver::Outgoing> Saver::collect() const {
  const auto states = shard_states(store_, optimizer_);
  std::vector<Outgoing> outgoing;
  std::size_t hash_index = 0;
  for (std::size_t k = 0; k < states.size(); ++k) {
    const auto& p = store_.parameters()[k];
    const auto box = written_box(p.placement, k, layout_, world_.rank());
    for (const auto& state : states[k]) {
      const auto index = hash_index++;
      if (box.elements() == 0) continue;
      const auto element_bytes = static_cast<std::int64_t>(state.tensor.element_size());
      const auto part = fsdp::strided_part(state.tensor.data_ptr(), state.tensor.element_size(), p.box, box);
      outgoing.push_back({{stored_name(state.name, p.placement.parameter.fqn), element_type(state.tensor), box.shape()},
                          static_cast<const std::byte*>(part.data),
                          part.rows,
                          part.row_elements * element_bytes,
                          part.stride_elements * element_bytes,
                          index});
    }
  }
  return outgoing;
}

// Into memory of the saver's own, one behind the other.
void Saver::copy(std::vector<Outgoing>& outgoing) {
  std::size_t bytes = 0;
  for (const auto& o : outgoing) bytes += static_cast<std::size_t>(o.runs * o.run_bytes);
  if (!copy_) copy_ = std::make_unique_for_overwrite<std::byte[]>(bytes);
  auto* to = copy_.get();
  for (auto& o : outgoing) {
    auto* const begin = to;
    for (std::int64_t run = 0; run < o.runs; ++run, to += o.run_bytes)
      std::memcpy(to, o.content + run * o.stride_bytes, static_cast<std::size_t>(o.run_bytes));
    o.content = begin;
    o.stride_bytes = o.run_bytes;
  }
}

WrittenFile Saver::write_file(const std::vector<Outgoing>& outgoing) const {
  if (outgoing.empty()) return {};
  std::vector<OutgoingTensor> tensors;
  for (const auto& o : outgoing) tensors.push_back(o.tensor);
  SafetensorsWriter writer(
      unfinished_folder(options_.output, facts_.progress.step) / file_name(world_.rank()), std::move(tensors),
      {{"format", "pt"}, {"step", std::to_string(facts_.progress.step)}, {"rank", std::to_string(world_.rank())}},
      files_);
  std::vector<std::byte> joined;  // short runs
  for (const auto& o : outgoing) {
    base::require(!is_abandoned_, "the run ended meanwhile");
    if (o.stride_bytes == o.run_bytes || o.runs == 1) {
      writer.write({o.content, static_cast<std::size_t>(o.runs * o.run_bytes)});
      continue;
    }
    for (std::int64_t run = 0; run < o.runs; ++run) {
      const auto* const begin = o.content + run * o.stride_bytes;
      joined.insert(joined.end(), begin, begin + o.run_bytes);
      if (joined.size() < joined_bytes && run + 1 < o.runs) continue;
      writer.write(joined);
      joined.clear();
    }
  }
  return writer.finish();
}

// From the order of the file to that of all states of all parameters: 0 for those that this rank does not write.
void Saver::spread_hashes(const std::vector<Outgoing>& outgoing) {
  std::size_t states = 0;
  for (const auto& list : shard_states(store_, optimizer_)) states += list.size();
  auto hashes = std::exchange(written_.hashes, std::vector<std::uint64_t>(states));
  for (std::size_t k = 0; k < outgoing.size(); ++k) written_.hashes[outgoing[k].hash_index] = hashes[k];
}

void Saver::begin(std::function<void()> part) {
  running_ = std::async(mode_ == SaveMode::background ? std::launch::async : std::launch::deferred, std::move(part));
  if (mode_ == SaveMode::wait) running_.wait();
}

void Saver::start(SavedFacts facts, SaveMode mode) {
  base::expect(!is_under_way(), "a save begins while another is under way");
  began_ = base::seconds_now();
  mode_ = mode;
  facts_ = std::move(facts);
  const auto step = facts_.progress.step;
  result_ = {.step = step, .folder = options_.output / folder_name(step)};
  part_ = Part::files;
  const auto folder = unfinished_folder(options_.output, step);
  const auto failure = agreed(world_, failure_of([&] {
                                if (world_.rank() != 0) return;
                                files_.remove(folder);
                                files_.make_folder(folder);
                              }));
  if (failure) {
    result_.failure = failure;
    begin([] {});
  } else {
    auto copied = std::make_shared<std::promise<void>>();
    if (mode == SaveMode::background)
      optimizer_.before_next_step([this, until = copied->get_future().share()] {
        const auto began = base::seconds_now();
        until.wait();
        seconds_at_update_ = base::seconds_now() - began;
      });
    begin([this, copied, outgoing = collect()]() mutable {
      {
        const KeptPromise kept(copied);
        if (mode_ == SaveMode::background) copy(outgoing);
      }
      written_ = write_file(outgoing);
      spread_hashes(outgoing);
    });
  }
  result_.seconds_waited = base::seconds_now() - began_;
}

void Saver::gather_hashes() {
  std::vector<std::int64_t> own{static_cast<std::int64_t>(written_.bytes),
                                static_cast<std::int64_t>(written_.header_hash)};
  for (const auto hash : written_.hashes) own.push_back(static_cast<std::int64_t>(hash));
  const auto ranks = static_cast<std::size_t>(world_.size());
  std::vector<std::int64_t> send(ranks, 0), receive(ranks, world_.rank() == 0 ? 1 : 0);
  send[0] = 1;
  numbers_.resize(world_.rank() == 0 ? ranks * own.size() : 0);
  world_
      .all_to_all_rows(own.data(), send, numbers_.data(), receive, std::ssize(own), comm::ElementType::int64, nullptr)
      ->wait();
}

Manifest Saver::make_manifest() const {
  Manifest manifest{facts_.progress, facts_.layout, facts_.settings, facts_.model, {}, {}};
  const auto row = std::ssize(numbers_) / world_.size();
  const auto numbers = [&](std::int64_t rank, std::int64_t k) {
    return static_cast<std::uint64_t>(numbers_[static_cast<std::size_t>(rank * row + k)]);
  };
  for (std::int64_t rank = 0; rank < layout_.world(); ++rank)
    if (file_of_rank_[static_cast<std::size_t>(rank)] >= 0)
      manifest.files.push_back({file_name(rank), numbers(rank, 0), numbers(rank, 1)});
  const auto states = shard_states(store_, optimizer_);
  auto hash_index = numbers_before_hashes;
  for (std::size_t k = 0; k < states.size(); ++k) {
    const auto& placement = store_.parameters()[k].placement;
    ManifestTensor tensor{placement.parameter, element_type(states[k].front().tensor), {}, {}};
    for (const auto& state : states[k]) tensor.states.push_back(state.name);
    for (std::int64_t rank = 0; rank < layout_.world(); ++rank) {
      auto box = written_box(placement, k, layout_, rank);
      if (box.elements() == 0) continue;
      ManifestPiece piece{static_cast<std::size_t>(file_of_rank_[static_cast<std::size_t>(rank)]), std::move(box), {}};
      for (std::int64_t s = 0; s < std::ssize(states[k]); ++s) piece.hashes.push_back(numbers(rank, hash_index + s));
      tensor.pieces.push_back(std::move(piece));
    }
    hash_index += std::ssize(states[k]);
    manifest.tensors.push_back(std::move(tensor));
  }
  return manifest;
}

void Saver::write_manifest_and_commit() {
  const auto step = facts_.progress.step;
  const auto manifest = make_manifest();
  for (const auto& file : manifest.files) result_.bytes += file.bytes;
  const auto path = unfinished_folder(options_.output, step) / manifest_name;
  const auto text = to_text(manifest);
  const auto file = files_.create(path);
  file->write(std::as_bytes(std::span(text)));
  file->sync();
  file->close();
  commit(options_.output, step, files_);
  const auto failure = failure_of([&] {
    for (const auto old : outdated(list_checkpoints(options_.output), step, options_.keep_last, options_.keep_every))
      remove_checkpoint(options_.output, old, files_);
  });
  if (failure) result_.notes.push_back(failure->message);
}

std::optional<SaveResult> Saver::end(std::optional<std::string> failure) {
  if (failure && world_.rank() == 0) {
    // What is left of it is of no use; if it cannot be removed either, the next start reports it.
    if (const auto left = failure_of([&] { files_.remove(unfinished_folder(options_.output, result_.step)); }))
      result_.notes.push_back(left->message);
  }
  part_ = Part::none;
  result_.failure = std::move(failure);
  result_.seconds = base::seconds_now() - began_;
  result_.seconds_waited += std::exchange(seconds_at_update_, 0);
  return std::move(result_);
}

// Precondition: the part under way has ended on every rank.
std::optional<SaveResult> Saver::advance() {
  const auto earlier = result_.failure;
  const auto failure = agreed(world_, failure_of([&] { running_.get(); }));
  if (earlier || failure) return end(earlier ? earlier : failure);
  if (part_ == Part::commit) return end(std::nullopt);
  gather_hashes();
  part_ = Part::commit;
  begin([this] {
    if (world_.rank() == 0) write_manifest_and_commit();
  });
  return std::nullopt;
}

std::optional<SaveResult> Saver::poll() {
  const auto began = base::seconds_now();
  while (is_under_way()) {
    const bool has_ended = running_.wait_for(std::chrono::seconds(0)) != std::future_status::timeout;
    std::int64_t waiting = has_ended ? 0 : 1;
    world_.all_reduce(&waiting, 1, comm::ElementType::int64, comm::ReduceOperation::max, nullptr)->wait();
    if (waiting != 0) break;
    result_.seconds_waited += base::seconds_now() - began;
    if (auto result = advance()) return result;
  }
  return std::nullopt;
}

std::optional<SaveResult> Saver::finish() {
  while (is_under_way()) {
    running_.wait();
    if (auto result = poll()) return result;
  }
  return std::nullopt;
}

}  // namespace tessera::checkpoint

#include "checkpoint/saver.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <functional>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "checkpoint/float_type.h"
#include "checkpoint/folder.h"
#include "checkpoint/shard_files.h"

namespace tessera::checkpoint {
namespace {

constexpr std::size_t joined_bytes = 1 << 20;

// Fulfils a promise when it goes out of scope, also by an exception.
class KeptPromise {
 public:
  explicit KeptPromise(std::shared_ptr<std::promise<void>> promise) : promise_(std::move(promise)) {}
  ~KeptPromise() { promise_->set_value(); }
  KeptPromise(const KeptPromise&) = delete;
  KeptPromise& operator=(const KeptPromise&) = delete;

 private:
  std::shared_ptr<std::promise<void>> promise_;
};

// Collective over `world`. Returns the first failure among the ranks, the same on all of them.
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
      files_(files) {}

Saver::~Saver() {
  optimizer_.before_next_step(nullptr);
  is_abandoned_ = true;
  if (running_.valid()) running_.wait();
}

std::vector<Saver::Outgoing> Saver::collect(const States& states) const {
  std::vector<Outgoing> outgoing;
  std::size_t hash_index = 0;
  for (std::size_t k = 0; k < states.size(); ++k) {
    const auto& p = store_.parameters()[k];
    const auto box = written_box(p.placement, k, layout_, world_.rank());
    for (const auto& state : states[k]) {
      const auto index = hash_index++;
      if (box.elements() == 0) continue;
      const bool is_on_host = state.tensor.is_cpu();
      const auto tensor = is_on_host ? state.tensor : fsdp::part_of(state.tensor, p.box, box).cpu().contiguous();
      const auto element_bytes = static_cast<std::int64_t>(tensor.element_size());
      const auto part = fsdp::strided_part(tensor.data_ptr(), tensor.element_size(), is_on_host ? p.box : box, box);
      outgoing.push_back({.tensor = {stored_name(state.name, p.placement.parameter.fqn),
                                     stored_type(tensor.scalar_type()), box.shape()},
                          .content = static_cast<const std::byte*>(part.data),
                          .from_gpu = is_on_host ? at::Tensor() : tensor,
                          .runs = part.rows,
                          .run_bytes = part.row_elements * element_bytes,
                          .stride_bytes = part.stride_elements * element_bytes,
                          .hash_index = index});
    }
  }
  return outgoing;
}

// Copies the boxes of shards on the host into the saver's own memory, one behind the other.
void Saver::copy(std::vector<Outgoing>& outgoing) {
  std::size_t bytes = 0;
  for (const auto& o : outgoing)
    if (!o.from_gpu.defined()) bytes += static_cast<std::size_t>(o.runs * o.run_bytes);
  if (!copy_) copy_ = std::make_unique_for_overwrite<std::byte[]>(bytes);
  auto* to = copy_.get();
  for (auto& o : outgoing) {
    if (o.from_gpu.defined()) continue;
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
      unfinished_folder(options_.output, facts_.progress.step) / shard_file_name(world_.rank()), std::move(tensors),
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
    const auto states = shard_states(store_, optimizer_);
    std::size_t count = 0;
    for (const auto& list : states) count += list.size();
    begin([this, copied, count, outgoing = collect(states)]() mutable {
      {
        const KeptPromise kept(copied);
        if (mode_ == SaveMode::background) copy(outgoing);
      }
      std::vector<std::size_t> places;
      for (const auto& o : outgoing) places.push_back(o.hash_index);
      written_ = with_hashes_at(write_file(outgoing), places, count);
    });
  }
  result_.seconds_waited = base::seconds_now() - began_;
}

Manifest Saver::make_manifest() const {
  Manifest manifest{facts_.progress, facts_.layout, facts_.settings, facts_.model, {}, {}};
  const auto states = shard_states(store_, optimizer_);
  for (std::size_t k = 0; k < states.size(); ++k) {
    auto& tensor = manifest.tensors.emplace_back();
    tensor.parameter = store_.parameters()[k].placement.parameter;
    tensor.type = stored_type(states[k].front().tensor.scalar_type());
    for (const auto& state : states[k]) tensor.states.push_back(state.name);
  }
  add_files_and_pieces(manifest, of_ranks_, [&](std::size_t k, std::int64_t rank) {
    return written_box(store_.parameters()[k].placement, k, layout_, rank);
  });
  return manifest;
}

void Saver::write_manifest_and_commit() {
  const auto step = facts_.progress.step;
  auto manifest = make_manifest();
  const auto folder = unfinished_folder(options_.output, step);
  if (facts_.companions) {
    write_companions(*facts_.companions, folder, files_);
    manifest.companions = entries_of(*facts_.companions);
  }
  for (const auto& file : manifest.files) result_.bytes += file.bytes;
  for (const auto& companion : manifest.companions) result_.bytes += companion.bytes;
  base::write_synced(folder / manifest_name, to_text(manifest), files_);
  if (const auto aside = commit(options_.output, step, files_))
    result_.notes.push_back(
        fmt::format("{} was no checkpoint; it is kept as {}", result_.folder.string(), aside->string()));
  const auto failure = failure_of([&] {
    for (const auto old : outdated(list_checkpoints(options_.output), step, options_.keep_last, options_.keep_every))
      remove_checkpoint(options_.output, old, files_);
  });
  if (failure) result_.notes.push_back(failure->message);
}

std::optional<SaveResult> Saver::end(std::optional<std::string> failure) {
  if (failure && world_.rank() == 0) {
    // The unfinished folder is of no use; if it cannot be removed either, the next start reports it.
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
  of_ranks_ = gather_files(written_, world_);
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

#include "checkpoint/saver.h"

#include <ATen/ops/empty_like.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
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

ElementType element_type(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kFloat: return ElementType::F32;
    case at::kDouble: return ElementType::F64;
    default: base::expect(false, "masters are float32 or float64, not {}", c10::toString(tensor.scalar_type()));
  }
  return {};
}

std::string file_name(std::int64_t rank) { return fmt::format("shard_{:05}.safetensors", rank); }

std::span<const std::byte> bytes_of(const at::Tensor& tensor) {
  return {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()};
}

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

Saver::Saver(SaverOptions options, const fsdp::ParameterStore& store, const optim::Optimizer& optimizer,
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
  if (running_.valid()) running_.wait();
}

std::vector<Saver::Outgoing> Saver::collect(SaveMode mode) {
  const auto states = shard_states(store_, optimizer_);
  std::vector<Outgoing> outgoing;
  std::size_t hash_index = 0, copy = 0;
  for (std::size_t k = 0; k < states.size(); ++k) {
    const auto& p = store_.parameters()[k];
    const auto box = written_box(p.placement, k, layout_, world_.rank());
    for (const auto& state : states[k]) {
      const auto index = hash_index++;
      if (box.elements() == 0) continue;
      auto content = fsdp::part_of(state.tensor, p.box, box);
      if (mode == SaveMode::background) {
        if (copy == copies_.size()) copies_.push_back(at::empty_like(content, at::MemoryFormat::Contiguous));
        content = copies_[copy++].copy_(content);
      }
      outgoing.push_back({{stored_name(state.name, p.placement.parameter.fqn), element_type(content), box.shape()},
                          std::move(content),
                          index});
    }
  }
  return outgoing;
}

WrittenFile Saver::write_file(const std::vector<Outgoing>& outgoing) const {
  if (outgoing.empty()) return {};
  std::vector<OutgoingTensor> tensors;
  for (const auto& o : outgoing) tensors.push_back(o.tensor);
  SafetensorsWriter writer(
      unfinished_folder(options_.output, facts_.progress.step) / file_name(world_.rank()), std::move(tensors),
      {{"format", "pt"}, {"step", std::to_string(facts_.progress.step)}, {"rank", std::to_string(world_.rank())}},
      files_);
  for (const auto& o : outgoing) writer.write(bytes_of(o.content.contiguous()));
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
    begin([this, outgoing = collect(mode)] {
      written_ = write_file(outgoing);
      auto hashes = std::exchange(written_.hashes, {});
      std::size_t states = 0;
      for (const auto& list : shard_states(store_, optimizer_)) states += list.size();
      written_.hashes.resize(states);
      for (std::size_t k = 0; k < outgoing.size(); ++k) written_.hashes[outgoing[k].hash_index] = hashes[k];
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

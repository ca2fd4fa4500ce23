// Numbers the resources of a program, so that facts about each of them fit into an array.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

#include "program/program.h"

namespace tessera::program {

// Each resource that the program names has a number of its own below size(). size() follows from the largest
// micro-step, layer, chain and unit of each kind.
class ResourceNumbers {
 public:
  explicit ResourceNumbers(const Program& program);

  [[nodiscard]] std::size_t size() const { return size_; }
  // Precondition: the program names `resource`.
  [[nodiscard]] std::size_t of(const Resource& resource) const {
    const auto& range = ranges_[static_cast<std::size_t>(resource.kind)];
    return range.first + micro_of(resource) * range.per_micro + within_micro(resource);
  }

 private:
  static constexpr std::size_t kinds = static_cast<std::size_t>(ResourceKind::losses) + 1;
  // The numbers of one kind: those of the first micro-step, then those of the next one.
  struct Range {
    std::size_t first = 0, micros = 0, per_micro = 0;
  };

  void note(const Resource& resource) {
    auto& range = ranges_[static_cast<std::size_t>(resource.kind)];
    range.micros = std::max(range.micros, micro_of(resource) + 1);
    range.per_micro = std::max(range.per_micro, within_micro(resource) + 1);
  }
  static std::size_t micro_of(const Resource& resource) { return static_cast<std::size_t>(resource.micro + 1); }
  static std::size_t within_micro(const Resource& resource) {
    if (resource.kind != ResourceKind::value && resource.kind != ResourceKind::gradient)
      return static_cast<std::size_t>(resource.index + 1);
    return static_cast<std::size_t>(resource.value.layer + 1) * architecture::value_kinds +
           static_cast<std::size_t>(resource.value.kind);
  }

  std::array<Range, kinds> ranges_{};
  std::size_t size_ = 0;
};

// A set of resources that a program names, with one bit for each. `numbers` must outlive it.
class ResourceSet {
 public:
  explicit ResourceSet(const ResourceNumbers& numbers) : numbers_(numbers), bits_(numbers.size(), false) {}

  [[nodiscard]] bool contains(const Resource& resource) const { return bits_[numbers_.of(resource)]; }
  // Returns whether the resource was not in the set before.
  bool insert(const Resource& resource) {
    const bool is_new = !contains(resource);
    bits_[numbers_.of(resource)] = true;
    return is_new;
  }
  // Returns whether the resource was in the set before.
  bool erase(const Resource& resource) {
    const bool was_there = contains(resource);
    bits_[numbers_.of(resource)] = false;
    return was_there;
  }

 private:
  const ResourceNumbers& numbers_;
  std::vector<bool> bits_;
};

}  // namespace tessera::program

// Packs named numbers into one vector, so that ranks add all of them in one operation.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace tessera::executor {

// A field is the numbers [first, first + count) of the vector.
struct SumField {
  std::size_t first = 0, count = 0;
};

// Lays fields out one after the other. Every rank adds the same fields in the same order.
class SumLayout {
 public:
  SumField add(std::size_t count = 1) {
    const SumField field{size_, count};
    size_ += count;
    return field;
  }
  [[nodiscard]] std::size_t size() const { return size_; }

 private:
  std::size_t size_ = 0;
};

// The numbers of a layout, in float64. An operation under way shares them, so that they outlive a step that an
// exception ends.
class SumNumbers {
 public:
  // Sets all numbers of `layout` to zero.
  void reset(const SumLayout& layout) { numbers_->assign(layout.size(), 0.0); }
  [[nodiscard]] std::span<double> operator[](SumField field) {
    return std::span(*numbers_).subspan(field.first, field.count);
  }
  [[nodiscard]] std::span<const double> operator[](SumField field) const {
    return std::span<const double>(*numbers_).subspan(field.first, field.count);
  }
  // Precondition of both: the field has one number.
  [[nodiscard]] double number(SumField field) const { return (*numbers_)[field.first]; }
  [[nodiscard]] std::int64_t count(SumField field) const { return std::llround(number(field)); }
  [[nodiscard]] const std::shared_ptr<std::vector<double>>& shared() const { return numbers_; }

 private:
  std::shared_ptr<std::vector<double>> numbers_ = std::make_shared<std::vector<double>>();
};

}  // namespace tessera::executor

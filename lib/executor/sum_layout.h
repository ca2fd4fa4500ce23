// Numbers that ranks add up in one operation, each with a name of its own.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace tessera::executor {

// The places of a field in a sum.
struct SumField {
  std::size_t first = 0, count = 0;
};

// Hands out places one after the other. Every rank makes the same fields in the same order.
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

// The numbers of a layout, float64. An operation under way shares them, so that they outlive a run that an exception
// ends.
class SumNumbers {
 public:
  // All are zero from now on.
  void reset(const SumLayout& layout) { numbers_->assign(layout.size(), 0.0); }
  [[nodiscard]] std::span<double> operator[](SumField field) {
    return std::span(*numbers_).subspan(field.first, field.count);
  }
  [[nodiscard]] std::span<const double> operator[](SumField field) const {
    return std::span<const double>(*numbers_).subspan(field.first, field.count);
  }
  // Of a field of one number.
  [[nodiscard]] double number(SumField field) const { return (*numbers_)[field.first]; }
  [[nodiscard]] std::int64_t count(SumField field) const { return std::llround(number(field)); }
  [[nodiscard]] const std::shared_ptr<std::vector<double>>& shared() const { return numbers_; }

 private:
  std::shared_ptr<std::vector<double>> numbers_ = std::make_shared<std::vector<double>>();
};

}  // namespace tessera::executor

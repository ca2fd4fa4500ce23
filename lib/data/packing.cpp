#include "data/packing.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace tessera::data {

Packing::Packing(std::int64_t documents, Lengths lengths, Order order, std::int64_t capacity)
    : documents_(documents), lengths_(std::move(lengths)), order_(std::move(order)), capacity_(capacity) {
  base::expect(capacity_ >= 1, "windows of {} tokens", capacity_);
  Count count(capacity_);
  for (std::int64_t place = 0; place < documents_; ++place) {
    const std::int64_t inputs = lengths_(order_(place)) - 1;
    if (inputs < 1) ++left_out_;
    if (inputs > capacity_) ++cut_;
    for (std::int64_t first = 0; first < inputs; first += capacity_)
      if (count.place(std::min(capacity_, inputs - first))) starts_.push_back({place, first});
  }
}

std::vector<Piece> Packing::pieces(std::int64_t window) const {
  base::expect(window >= 0 && window < windows(), "window {} of {}", window, windows());
  const auto number = static_cast<std::size_t>(window);
  const Start end = number + 1 < starts_.size() ? starts_[number + 1] : Start{documents_, 0};
  std::vector<Piece> pieces;
  Start at = starts_[number];
  while (at.place < end.place || (at.place == end.place && at.first < end.first)) {
    const std::int64_t document = order_(at.place);
    const std::int64_t inputs = lengths_(document) - 1;
    if (at.first < inputs) {
      pieces.push_back({document, at.first, std::min(capacity_, inputs - at.first)});
      at.first += capacity_;
    }
    if (at.first >= inputs) at = {at.place + 1, 0};
  }
  return pieces;
}

}  // namespace tessera::data

// Implements the launchers of comm/nccl/kernels.h: the same arithmetic, on the stream's thread.
#include "comm/nccl/kernels.h"

#include "support/cuda_double/cuda_double.h"

namespace tessera::comm {

namespace {

using test::ByteRange;

ByteRange rows(const void* data, std::size_t element, const RankOrderSum& sum, std::int64_t stride) {
  return test::rows_of(data, static_cast<std::size_t>(sum.row_elements) * element, static_cast<std::size_t>(sum.rows),
                       static_cast<std::size_t>(stride) * element);
}

// The other ranks' elements lie before and behind this rank's place.
std::vector<ByteRange> received(const RankOrderSum& sum, std::size_t element) {
  const auto piece = static_cast<std::size_t>(sum.rows * sum.row_elements) * element;
  const auto before = static_cast<std::size_t>(sum.rank), behind = static_cast<std::size_t>(sum.ranks) - before - 1;
  const auto* const begin = static_cast<const std::byte*>(sum.received);
  std::vector<ByteRange> ranges;
  if (before > 0) ranges.push_back(test::bytes_of(begin, before * piece));
  if (behind > 0) ranges.push_back(test::bytes_of(begin + (before + 1) * piece, behind * piece));
  return ranges;
}

template <class Value, class Total>
void run(const RankOrderSum& sum) {
  for (std::int64_t row = 0; row < sum.rows; ++row)
    for (std::int64_t column = 0; column < sum.row_elements; ++column)
      rank_order::sum_element<Value, Total>(sum, row, column);
}

}  // namespace

void launch_rank_order_sum(const RankOrderSum& sum, const device::Stream& stream) {
  if (sum.rows == 0 || sum.row_elements == 0) return;
  comm::with_types(sum.type, [&]<class Value, class Total>(Value, Total) {
    const bool is_added = sum.total_goes == TotalGoes::added;
    const auto target = rows(sum.target, is_added ? sizeof(Total) : sizeof(Value), sum, sum.target_stride);
    auto reads = received(sum, sizeof(Value));
    reads.push_back(rows(sum.own, sizeof(Value), sum, sum.own_stride));
    if (is_added) reads.push_back(target);
    test::launch(stream.native(), "rank_order_sum", std::move(reads), {target}, [sum] { run<Value, Total>(sum); });
  });
}

}  // namespace tessera::comm

// If this failed, the double of NCCL would deliver other values than NCCL, or report correct calls as faults.
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>

#include "joined.h"
#include "support/catch.h"
#include "support/ranks.h"

namespace tessera::test {
namespace {

float value(int rank, std::size_t k) { return static_cast<float>(100 * rank) + static_cast<float>(k); }

// Of the ranks' values.
float sum(int size, std::size_t k) {
  return static_cast<float>(50 * size * (size - 1)) + static_cast<float>(size) * static_cast<float>(k);
}

std::vector<float> own_values(int rank, std::size_t count) {
  std::vector<float> values;
  for (std::size_t k = 0; k < count; ++k) values.push_back(value(rank, k));
  return values;
}

// Each test runs plain, and with operations that begin late.
void at_any_pace(const std::function<void()>& test) {
  test();
  set_delays(static_cast<std::uint32_t>(17 + world().rank()), 2000);
  test();
  set_delays(0, 0);
  CHECK_ON_ALL(faults().empty());
}

TEST_CASE("an all-gather, in place or not") {
  const Joined joined;
  const auto size = static_cast<std::size_t>(joined.size), rank = static_cast<std::size_t>(joined.rank);
  constexpr std::size_t count = 5;
  std::vector<float> expected;
  for (int k = 0; k < joined.size; ++k)
    for (std::size_t e = 0; e < count; ++e) expected.push_back(value(k, e));
  at_any_pace([&] {
    const DeviceArray<float> own(own_values(joined.rank, count)), apart(count * size);
    DeviceArray<float> in_place(count * size);
    auto values = std::vector<float>(count * size, -1);
    for (std::size_t e = 0; e < count; ++e) values[count * rank + e] = value(joined.rank, e);
    in_place = values;
    ncclAllGather(own.data(), apart.data(), count, ncclFloat32, joined.communicator, joined.lane);
    ncclAllGather(in_place.data() + count * rank, in_place.data(), count, ncclFloat32, joined.communicator,
                  joined.lane);
    cudaStreamSynchronize(joined.lane);
    CHECK_ON_ALL(apart.values() == expected);
    CHECK_ON_ALL(in_place.values() == expected);
  });
}

TEST_CASE("a reduce-scatter and an all-reduce, in place or not") {
  const Joined joined;
  const auto size = static_cast<std::size_t>(joined.size), rank = static_cast<std::size_t>(joined.rank);
  constexpr std::size_t count = 7;
  at_any_pace([&] {
    const DeviceArray<float> own(own_values(joined.rank, count * size)), block(count);
    const DeviceArray<float> in_place(own_values(joined.rank, count * size));
    const DeviceArray<float> all(own_values(joined.rank, count * size)), all_apart(count * size);
    const auto c = joined.communicator;
    ncclReduceScatter(own.data(), block.data(), count, ncclFloat32, ncclSum, c, joined.lane);
    ncclReduceScatter(in_place.data(), in_place.data() + count * rank, count, ncclFloat32, ncclSum, c, joined.lane);
    ncclAllReduce(own.data(), all_apart.data(), count * size, ncclFloat32, ncclMax, c, joined.lane);
    ncclAllReduce(all.data(), all.data(), count * size, ncclFloat32, ncclSum, c, joined.lane);
    cudaStreamSynchronize(joined.lane);
    const auto block_values = block.values(), in_place_values = in_place.values(), all_values = all.values(),
               largest = all_apart.values();
    bool right = true;
    for (std::size_t e = 0; e < count; ++e) {
      const auto expected = sum(joined.size, count * rank + e);
      right &= block_values[e] == expected && in_place_values[count * rank + e] == expected;
    }
    for (std::size_t e = 0; e < count * size; ++e)
      right &= all_values[e] == sum(joined.size, e) && largest[e] == value(joined.size - 1, e);
    CHECK_ON_ALL(right);
  });
}

TEST_CASE("1.5 and 2.25 make 3.75 in bfloat16, and sums round to nearest even") {
  const Joined joined;
  // 256 + 1 lies between 256 and 258; 258 + 1 would round to 260.
  const std::uint16_t first = joined.rank == 0 ? 0x3FC0 : joined.rank == 1 ? 0x4010 : 0;
  const std::uint16_t second = joined.rank == 0 ? 0x4380 : joined.rank == 1 ? 0x3F80 : 0;
  const DeviceArray<std::uint16_t> data(std::vector{first, second});
  ncclAllReduce(data.data(), data.data(), 2, ncclBfloat16, ncclSum, joined.communicator, joined.lane);
  cudaStreamSynchronize(joined.lane);
  const bool alone = joined.size == 1;
  CHECK_ON_ALL(data.values() == std::vector<std::uint16_t>{alone ? first : std::uint16_t{0x4070}, 0x4380});
}

TEST_CASE("integers and doubles are summed in their types") {
  const Joined joined;
  const auto reduce = [&](auto one, ncclDataType_t type) {
    const DeviceArray<decltype(one)> data(std::vector{one});
    ncclAllReduce(data.data(), data.data(), 1, type, ncclSum, joined.communicator, joined.lane);
    cudaStreamSynchronize(joined.lane);
    return data.values()[0] == static_cast<decltype(one)>(one * static_cast<decltype(one)>(joined.size));
  };
  CHECK_ON_ALL(reduce(std::int64_t{1} << 40, ncclInt64));
  CHECK_ON_ALL(reduce(std::int32_t{16777217}, ncclInt32));
  CHECK_ON_ALL(reduce(16777217.0, ncclFloat64));
}

TEST_CASE("a maximum passes over NaN, as on a GPU") {
  const Joined joined;
  const auto nan = std::numeric_limits<float>::quiet_NaN();
  const DeviceArray<float> data(std::vector<float>{joined.rank == 0 ? nan : static_cast<float>(joined.rank), nan});
  ncclAllReduce(data.data(), data.data(), 2, ncclFloat32, ncclMax, joined.communicator, joined.lane);
  cudaStreamSynchronize(joined.lane);
  const auto values = data.values();
  CHECK_ON_ALL(joined.size == 1 ? std::isnan(values[0]) : values[0] == static_cast<float>(joined.size - 1));
  CHECK_ON_ALL(std::isnan(values[1]));
}

TEST_CASE("a broadcast from each root, which the others need no send buffer for") {
  const Joined joined;
  at_any_pace([&] {
    for (int root = 0; root < joined.size; ++root) {
      const DeviceArray<float> data(own_values(joined.rank, 3));
      const auto* send = joined.rank == root ? data.data() : nullptr;
      ncclBroadcast(send, data.data(), 3, ncclFloat32, root, joined.communicator, joined.lane);
      cudaStreamSynchronize(joined.lane);
      CHECK_ON_ALL(data.values() == own_values(root, 3));
    }
  });
}

TEST_CASE("rows to all ranks by sends and receives of one group, empty ones too, and in the order of their calls") {
  const Joined joined;
  const auto size = static_cast<std::size_t>(joined.size);
  at_any_pace([&] {
    const DeviceArray<float> send(own_values(joined.rank, 4 * size)), receive(4 * size);
    ncclGroupStart();
    for (int k = 0; k < joined.size; ++k) {
      const auto at = 4 * static_cast<std::size_t>(k);
      for (const auto& [from, count] : {std::pair{at, 3}, {at + 3, 1}, {at + 4, 0}})
        ncclSend(send.data() + from, static_cast<std::size_t>(count), ncclFloat32, k, joined.communicator, joined.lane);
      for (const auto& [to, count] : {std::pair{at, 3}, {at + 3, 1}, {at + 4, 0}})
        ncclRecv(receive.data() + to, static_cast<std::size_t>(count), ncclFloat32, k, joined.communicator,
                 joined.lane);
    }
    ncclGroupEnd();
    cudaStreamSynchronize(joined.lane);
    const auto values = receive.values();
    bool right = true;
    for (int k = 0; k < joined.size; ++k)
      for (std::size_t e = 0; e < 4; ++e)
        right &= values[4 * static_cast<std::size_t>(k) + e] == value(k, 4 * static_cast<std::size_t>(joined.rank) + e);
    CHECK_ON_ALL(right);
  });
}

TEST_CASE("a send outside a group waits for its receive, and the other stream does not") {
  const Joined joined;
  if (joined.size < 2 || joined.size > 3) return;
  const DeviceArray<float> data(own_values(joined.rank, 3));
  at_any_pace([&] {
    if (joined.rank == 0) ncclSend(data.data(), 3, ncclFloat32, 1, joined.communicator, joined.lane);
    if (joined.rank == 1) ncclRecv(data.data(), 3, ncclFloat32, 0, joined.communicator, joined.lane);
    cudaStreamSynchronize(joined.lane);
    CHECK_ON_ALL(joined.rank != 1 || data.values() == own_values(0, 3));
  });
}

TEST_CASE("several collectives of a group, on several streams, wait for all of them and hold all of them") {
  const Joined joined(Calls::return_at_once);
  cudaStream_t other = nullptr;
  cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking);
  at_any_pace([&] {
    const DeviceArray<float> a(5), b(5), a_copy(5), b_copy(5);
    const auto write = [](cudaStream_t stream, const DeviceArray<float>& data) {
      launch(stream, "write", {}, {data.range()}, [&data] { std::fill_n(data.data(), 5, 3.0F); });
    };
    write(joined.lane, a);
    write(other, b);
    ncclGroupStart();
    ncclAllReduce(b.data(), b.data(), 5, ncclFloat32, ncclSum, joined.communicator, joined.lane);
    ncclAllReduce(a.data(), a.data(), 5, ncclFloat32, ncclSum, joined.communicator, other);
    ncclGroupEnd();
    settle(joined.communicator);
    cudaMemcpyAsync(a_copy.data(), a.data(), 5 * sizeof(float), cudaMemcpyDeviceToDevice, joined.lane);
    cudaMemcpyAsync(b_copy.data(), b.data(), 5 * sizeof(float), cudaMemcpyDeviceToDevice, other);
    cudaStreamSynchronize(joined.lane);
    cudaStreamSynchronize(other);
    const std::vector<float> expected(5, 3.0F * static_cast<float>(joined.size));
    CHECK_ON_ALL(a_copy.values() == expected && b_copy.values() == expected);
  });
  cudaStreamDestroy(other);
}

TEST_CASE("groups within groups are one") {
  const Joined joined;
  const DeviceArray<float> data(own_values(joined.rank, 3));
  ncclGroupStart();
  ncclGroupStart();
  ncclAllReduce(data.data(), data.data(), 3, ncclFloat32, ncclSum, joined.communicator, joined.lane);
  ncclGroupEnd();
  const auto inside = blamed([&] { check_at_rest("the middle"); });
  CHECK_ON_ALL(has(inside, "1 operations were not begun"));
  ncclGroupEnd();
  cudaStreamSynchronize(joined.lane);
  CHECK_ON_ALL(data.values()[2] == sum(joined.size, 2));
}

}  // namespace
}  // namespace tessera::test

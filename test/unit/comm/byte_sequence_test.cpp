// If this failed, sizes above 32 bits would wrap around, or the two ends of a transfer would divide it differently.
#include "comm/byte_sequence.h"

#include <limits>
#include <numeric>
#include <stdexcept>

#include "support/catch.h"

namespace tessera::comm {
namespace {

// An address that nobody reads.
std::byte* place(std::int64_t bytes) { return reinterpret_cast<std::byte*>(std::intptr_t{1} << 40) + bytes; }

TEST_CASE("messages cover each byte once, whatever the sizes") {
  for (const std::int64_t bytes : {std::int64_t{0}, std::int64_t{1}, std::int64_t{8}, std::int64_t{1023},
                                   std::int64_t{1024}, std::int64_t{3'000'000'000}, std::int64_t{3'000'000'001}})
    for (const std::int64_t limit : {std::int64_t{1} << 20, std::int64_t{1} << 30, std::int64_t{2'147'483'640}}) {
      INFO(bytes << " bytes in messages of " << limit);
      const MessagePlan plan(bytes, limit);
      std::int64_t at = 0;
      for (std::int64_t k = 0; k < plan.count(); ++k) {
        CHECK(plan.begin(k) == at);
        at = plan.end(k);
        const auto size = at - plan.begin(k);
        if (size <= 0 || size > limit) FAIL("message " << k << " of " << size << " bytes");
      }
      CHECK(at == bytes);
    }
}

TEST_CASE("a message is whole elements and fits MPI's int") {
  CHECK(is_legal_message(1024));
  CHECK_FALSE(is_legal_message(0));
  CHECK_FALSE(is_legal_message(-8));
  CHECK_FALSE(is_legal_message(1020));
  CHECK_FALSE(is_legal_message(std::int64_t{1} << 31));
  CHECK_THROWS_AS(MessagePlan(8, std::int64_t{1} << 31), std::logic_error);
  for (std::int64_t ranks = 1; ranks <= 4096; ++ranks) {
    const auto bytes = message_bytes_for(ranks);
    if (!is_legal_message(bytes) || bytes < 64 << 10 || bytes > 1 << 20) FAIL(bytes << " bytes for " << ranks);
  }
}

TEST_CASE("runs of pieces beyond 32 bits lie where the strides say") {
  ByteSequence sequence;
  // 3 rows of 250,000,000 float32, then one row of 3e9 bytes.
  sequence.append({place(0), 3, 250'000'000, 700'000'000}, ElementType::float32);
  sequence.append({place(1), 0, 5, 5}, ElementType::float32);  // empty
  sequence.append({place(16), 1, 1'500'000'000, 1'500'000'000}, ElementType::bfloat16);
  CHECK(sequence.bytes() == 6'000'000'000);
  const auto run = sequence.run(2'000'000'004, 2'500'000'000);
  CHECK(run.data == place(2 * 2'800'000'000 + 4));
  CHECK(run.bytes == 499'999'996);
  CHECK(sequence.run(999'999'996, 6'000'000'000).bytes == 4);  // to the end of the row
  CHECK(sequence.run(3'000'000'000, 6'000'000'000).bytes == 3'000'000'000);
  CHECK(sequence.run(5'999'999'999, 6'000'000'000).data == place(16 + 2'999'999'999));
}

TEST_CASE("rows without a gap are one run") {
  ByteSequence sequence;
  sequence.append({place(0), 7, 5, 5}, ElementType::float64);
  CHECK(sequence.run(8, 280).bytes == 272);
}

TEST_CASE("what is packed from pieces is put back into pieces, byte by byte") {
  std::vector<std::int32_t> from(5 * 7), to(5 * 7, -1), expected(5 * 7, -1);
  std::iota(from.begin(), from.end(), 0);
  const auto sequence_over = [](std::vector<std::int32_t>& data) {
    ByteSequence sequence;
    sequence.append({&data[1], 3, 2, 7}, ElementType::int32);
    sequence.append({&data[4], 1, 3, 7}, ElementType::int32);
    sequence.append({&data[28], 1, 7, 7}, ElementType::int32);
    return sequence;
  };
  for (const std::size_t k : {1, 2, 8, 9, 15, 16, 4, 5, 6, 28, 29, 30, 31, 32, 33, 34}) expected[k] = from[k];
  const auto source = sequence_over(from), target = sequence_over(to);
  std::vector<std::byte> packed(static_cast<std::size_t>(source.bytes()));
  source.pack(0, source.bytes(), packed.data());
  for (std::int64_t at = 0; at < source.bytes(); at += 5)
    target.unpack(at, std::min(at + 5, source.bytes()), packed.data() + at);
  CHECK(to == expected);
}

TEST_CASE("rows that overlap, and bytes that there are not, are the programmer's fault") {
  ByteSequence sequence;
  CHECK_THROWS_AS(sequence.append({place(0), 2, 5, 4}, ElementType::float32), std::logic_error);
  CHECK_THROWS_AS(sequence.append({place(0), -1, 5, 5}, ElementType::float32), std::logic_error);
  sequence.append({place(0), 1, 2, 2}, ElementType::float32);
  CHECK_THROWS_AS(sequence.run(0, 9), std::logic_error);
  CHECK_THROWS_AS(sequence.run(8, 8), std::logic_error);
}

TEST_CASE("a sequence told in numbers is the same sequence") {
  ByteSequence sequence;
  sequence.append({place(0), 3, 5, 7}, ElementType::float32);
  sequence.append({place(1), 0, 5, 5}, ElementType::float32);     // empty
  sequence.append({place(300), 4, 6, 6}, ElementType::bfloat16);  // one run
  sequence.append({place(900), 1, 1'500'000'000, 1'500'000'000}, ElementType::float64);
  const auto same = ByteSequence::from_words(sequence.words());
  CHECK(same.bytes() == sequence.bytes());
  CHECK(same.runs() == 3 + 1 + 1);
  CHECK(sequence.runs() == 5);
  const auto runs = sequence.runs(15, sequence.bytes()), same_runs = same.runs(15, same.bytes());
  CHECK(runs.size() == 5);
  std::int64_t bytes = 0;
  for (std::size_t k = 0; k < runs.size(); ++k) {
    CHECK((runs[k].data == same_runs[k].data && runs[k].bytes == same_runs[k].bytes));
    bytes += runs[k].bytes;
  }
  CHECK(bytes == sequence.bytes() - 15);
  CHECK(runs[0].data == place(15));
  CHECK(runs[0].bytes == 5);
  CHECK(ByteSequence::from_words({}).bytes() == 0);
  CHECK(sequence.runs(7, 7).empty());
}

}  // namespace
}  // namespace tessera::comm

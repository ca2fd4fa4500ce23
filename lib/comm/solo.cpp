#include <cstring>

#include "base/clock.h"
#include "base/error.h"
#include "comm/communicator.h"
#include "comm/piece_sum.h"

namespace tessera::comm {

std::size_t element_bytes(ElementType type) {
  switch (type) {
    case ElementType::bfloat16: return 2;
    case ElementType::float32:
    case ElementType::int32: return 4;
    case ElementType::float64:
    case ElementType::int64: return 8;
  }
  base::expect(false, "no such element type: {}", static_cast<int>(type));
  return 0;
}

namespace {

class Done final : public Operation {
 public:
  void wait() override {}
  [[nodiscard]] Span span() const override { return {called_at_, called_at_}; }

 private:
  const double called_at_ = base::seconds_now();
};

class Solo final : public Communicator {
 public:
  [[nodiscard]] std::int64_t rank() const override { return 0; }
  [[nodiscard]] std::int64_t size() const override { return 1; }

  Handle gather_blocks(std::vector<GatherBlock> blocks, KeepAlive) override {
    for (const auto& block : blocks)
      base::expect(block.pieces.size() == 1, "{} pieces for 1 ranks", block.pieces.size());
    return std::make_unique<Done>();
  }

  Handle reduce_blocks(std::vector<ReduceBlock> blocks, KeepAlive) override {
    for (const auto& block : blocks) {
      PieceSum sum({summed_piece(block, 0, 1)}, 0, 1);
      sum.add(0, sum.bytes(), {});
    }
    return std::make_unique<Done>();
  }

  Handle all_reduce(void*, std::int64_t, ElementType, ReduceOperation, KeepAlive) override {
    return std::make_unique<Done>();
  }

  Handle all_to_all_rows(const void* send, std::span<const std::int64_t> send_counts, void* receive,
                         std::span<const std::int64_t> receive_counts, std::int64_t row_elements, ElementType type,
                         KeepAlive) override {
    base::expect(send_counts.size() == 1 && receive_counts.size() == 1 && send_counts[0] == receive_counts[0],
                 "one rank sends itself what it receives");
    const auto bytes = static_cast<std::size_t>(send_counts[0] * row_elements) * element_bytes(type);
    if (bytes > 0 && send != receive) std::memcpy(receive, send, bytes);
    return std::make_unique<Done>();
  }

  Handle broadcast(void*, std::int64_t, ElementType, std::int64_t root, KeepAlive) override {
    base::expect(root == 0, "rank {} of a group of one", root);
    return std::make_unique<Done>();
  }

  void barrier() override {}

  std::shared_ptr<Communicator> make_group(std::span<const std::int64_t> ranks) override {
    base::expect(ranks.size() == 1 && ranks[0] == 0, "{} ranks of a group of one", ranks.size());
    return solo_communicator();
  }

  void set_name(std::string_view) override {}
  void set_label(std::string_view) override {}
};

}  // namespace

std::shared_ptr<Communicator> solo_communicator() { return std::make_shared<Solo>(); }

}  // namespace tessera::comm

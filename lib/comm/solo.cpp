#include <cstring>

#include "base/error.h"
#include "comm/communicator.h"

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
};

template <class Sum, class Element, class Widen>
void add_piece(const Strided& from, const Strided& to, Widen widen) {
  for (std::int64_t row = 0; row < from.rows; ++row) {
    const auto* source = static_cast<const Element*>(from.data) + row * from.stride_elements;
    auto* target = static_cast<Sum*>(to.data) + row * to.stride_elements;
    for (std::int64_t k = 0; k < from.row_elements; ++k) target[k] += widen(source[k]);
  }
}

float widened(std::uint16_t bfloat16) {
  const std::uint32_t bits = static_cast<std::uint32_t>(bfloat16) << 16;
  float value = 0;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

template <class T>
void add_same(const Strided& from, const Strided& to) {
  add_piece<T, T>(from, to, [](T x) { return x; });
}

void add_block(const ReduceBlock& block) {
  const auto& piece = block.pieces.at(0);
  base::expect(piece.rows == block.sum.rows && piece.row_elements == block.sum.row_elements,
               "a piece of {} x {} is added to a sum of {} x {}", piece.rows, piece.row_elements, block.sum.rows,
               block.sum.row_elements);
  if (block.type == ElementType::bfloat16) {
    base::expect(block.sum_type == ElementType::float32, "bfloat16 is summed in float32 only");
    return add_piece<float, std::uint16_t>(piece, block.sum, widened);
  }
  base::expect(block.type == block.sum_type, "a sum of another type than its pieces");
  switch (block.type) {
    case ElementType::float32: return add_same<float>(piece, block.sum);
    case ElementType::float64: return add_same<double>(piece, block.sum);
    case ElementType::int32: return add_same<std::int32_t>(piece, block.sum);
    case ElementType::int64: return add_same<std::int64_t>(piece, block.sum);
    case ElementType::bfloat16: break;
  }
}

class Solo final : public Communicator {
 public:
  [[nodiscard]] std::int64_t rank() const override { return 0; }
  [[nodiscard]] std::int64_t size() const override { return 1; }

  Handle gather_blocks(std::vector<GatherBlock> blocks, KeepAlive) override {
    for (const auto& block : blocks)
      base::expect(block.pieces.size() == 1, "{} pieces for one rank", block.pieces.size());
    return std::make_unique<Done>();
  }

  Handle reduce_blocks(std::vector<ReduceBlock> blocks, KeepAlive) override {
    for (const auto& block : blocks) {
      base::expect(block.pieces.size() == 1, "{} pieces for one rank", block.pieces.size());
      add_block(block);
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
};

}  // namespace

std::shared_ptr<Communicator> solo_communicator() { return std::make_shared<Solo>(); }

}  // namespace tessera::comm

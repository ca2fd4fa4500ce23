#include "checkpoint/reader.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <type_traits>
#include <vector>

#include "base/disk_work.h"
#include "base/error.h"

namespace tessera::checkpoint {
namespace {

using Shape = std::vector<std::int64_t>;

// Rounds to a float32 such that rounding it again, to a narrower type, gives the same as rounding `value` at once: an
// inexact result gets an odd last bit ("round to odd": Boldo, Melquiond, IEEE Trans. Comput. 57(4), 2008).
float rounded_to_odd(double value) {
  const auto nearest = static_cast<float>(value);
  if (static_cast<double>(nearest) == value || std::isnan(value)) return nearest;
  auto bits = std::bit_cast<std::uint32_t>(nearest);
  if (std::abs(static_cast<double>(nearest)) > std::abs(value)) --bits;
  return std::bit_cast<float>(bits | 1);
}

template <class From>
float to_be_narrowed(From element) {
  if constexpr (std::is_same_v<From, double>)
    return rounded_to_odd(element);
  else
    return static_cast<float>(element);
}

// Converts `count` elements. Copies each one first, because stored bytes may be unaligned.
template <class From, class To>
void convert(const std::byte* from, To* to, std::int64_t count) {
  if constexpr (std::is_same_v<From, To>) {
    std::memcpy(to, from, static_cast<std::size_t>(count) * sizeof(To));
  } else {
    for (std::int64_t i = 0; i < count; ++i) {
      From element;
      std::memcpy(&element, from + static_cast<std::size_t>(i) * sizeof(From), sizeof(From));
      if constexpr (std::is_same_v<To, c10::BFloat16> || std::is_same_v<To, c10::Half>)
        to[i] = To(to_be_narrowed(element));
      else
        to[i] = static_cast<To>(element);
    }
  }
}

// A rectangle in two row-major memories.
struct Rectangle {
  Shape shape;
  Shape from_strides, to_strides;  // elements
  std::int64_t from_offset = 0, to_offset = 0;
};

// Returns the number of trailing dims that are contiguous in both memories.
std::size_t folded_dims(const Rectangle& r) {
  std::int64_t run = 1;
  std::size_t dims = 0;
  while (dims < r.shape.size()) {
    const std::size_t d = r.shape.size() - 1 - dims;
    if (r.from_strides[d] != run || r.to_strides[d] != run) break;
    run *= r.shape[d];
    ++dims;
  }
  return dims;
}

template <class From, class To>
void copy_rectangle(const std::byte* from, To* to, const Rectangle& r) {
  const std::size_t outer = r.shape.size() - folded_dims(r);
  std::int64_t run = 1;
  for (std::size_t d = outer; d < r.shape.size(); ++d) run *= r.shape[d];
  Shape at(outer, 0);
  while (true) {
    std::int64_t source = r.from_offset, target = r.to_offset;
    for (std::size_t d = 0; d < outer; ++d) {
      source += at[d] * r.from_strides[d];
      target += at[d] * r.to_strides[d];
    }
    convert<From, To>(from + static_cast<std::size_t>(source) * sizeof(From), to + target, run);
    std::size_t d = outer;
    while (d > 0 && ++at[d - 1] == r.shape[d - 1]) at[--d] = 0;
    if (d == 0) return;
  }
}

template <class To>
void copy_from(const StoredPiece& piece, To* to, const Rectangle& r) {
  const std::byte* from = piece.file->bytes(*piece.tensor).data();
  switch (piece.tensor->type) {
    case ElementType::F32: return copy_rectangle<float>(from, to, r);
    case ElementType::F64: return copy_rectangle<double>(from, to, r);
    case ElementType::F16: return copy_rectangle<c10::Half>(from, to, r);
    case ElementType::BF16: return copy_rectangle<c10::BFloat16>(from, to, r);
    default: base::expect(false, "type {} passed the check of types", name(piece.tensor->type));
  }
}

void copy_piece(const StoredPiece& piece, const at::Tensor& into, const Rectangle& r) {
  switch (into.scalar_type()) {
    case c10::ScalarType::Float: return copy_from(piece, into.data_ptr<float>(), r);
    case c10::ScalarType::Double: return copy_from(piece, into.data_ptr<double>(), r);
    case c10::ScalarType::BFloat16: return copy_from(piece, into.data_ptr<c10::BFloat16>(), r);
    case c10::ScalarType::Half: return copy_from(piece, into.data_ptr<c10::Half>(), r);
    default: base::expect(false, "cannot read into {}", c10::toString(into.scalar_type()));
  }
}

}  // namespace

std::int64_t read_box(const StoredParameter& parameter, const layout::Box& box, const at::Tensor& into) {
  base::expect(into.is_contiguous() && into.sizes().vec() == box.shape(), "{}: the target is not of the box's shape",
               parameter.parameter.fqn);
  if (!into.is_cpu()) {
    const auto on_host = at::empty_like(into, at::kCPU);
    const auto read = read_box(parameter, box, on_host);
    at::Tensor target = into;
    target.copy_(on_host);
    return read;
  }
  base::expect(layout::intersect(box, layout::whole_box(parameter.parameter.shape)) == box || box.elements() == 0,
               "{}: the box is outside the parameter", parameter.parameter.fqn);
  std::int64_t read = 0;
  for (const StoredPiece& piece : parameter.pieces) {
    const layout::Box common = layout::intersect(box, piece.box);
    if (common.elements() == 0) continue;
    Rectangle r{common.shape(), piece.strides, into.strides().vec(), piece.offset, 0};
    for (std::size_t d = 0; d < common.dims.size(); ++d) {
      r.from_offset += (common.dims[d].begin - piece.box.dims[d].begin) * r.from_strides[d];
      r.to_offset += (common.dims[d].begin - box.dims[d].begin) * r.to_strides[d];
    }
    const base::DiskWork work("reading", piece.file->path().native());
    copy_piece(piece, into, r);
    read += common.elements();
  }
  base::expect(read == box.elements(), "{}: {} of {} elements are in its pieces", parameter.parameter.fqn, read,
               box.elements());
  return read;
}

at::Tensor read_box(const StoredParameter& parameter, const layout::Box& box, c10::ScalarType type) {
  at::Tensor into = at::empty(box.shape(), at::TensorOptions().dtype(type));
  read_box(parameter, box, into);
  return into;
}

at::Tensor read_parameter(const StoredParameter& parameter, c10::ScalarType type) {
  return read_box(parameter, layout::whole_box(parameter.parameter.shape), type);
}

}  // namespace tessera::checkpoint

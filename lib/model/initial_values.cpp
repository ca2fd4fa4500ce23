#include "model/initial_values.h"

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>

#include <algorithm>

#include "base/error.h"
#include "model/normal_numbers.h"

namespace tessera::model {
namespace {

// Elements [begin, begin + count) of the parameter's normal sequence.
template <class T>
void fill_run(const base::Philox& random, double deviation, std::int64_t begin, std::int64_t count, T* out) {
  const std::int64_t end = begin + count;
  for (std::int64_t pair = begin / 2; 2 * pair < end; ++pair) {
    const NormalPair z = normal_pair(random, static_cast<std::uint64_t>(pair));
    if (2 * pair >= begin) *out++ = static_cast<T>(deviation * z.even);
    if (2 * pair + 1 < end) *out++ = static_cast<T>(deviation * z.odd);
  }
}

// A box as runs of neighbouring elements: its trailing dims as far as they are whole, and one dim more.
class Runs {
 public:
  Runs(const std::vector<std::int64_t>& shape, const layout::Box& box) : shape_(shape), box_(box) {
    while (outer_ > 0) {
      --outer_;
      length_ *= box.dims[outer_].size();
      if (box.dims[outer_].size() != shape[outer_]) break;
    }
    for (std::size_t dim = 0; dim < outer_; ++dim) count_ *= box.dims[dim].size();
  }

  [[nodiscard]] std::int64_t count() const { return count_; }
  [[nodiscard]] std::int64_t length() const { return length_; }

  // Index in the whole parameter of the first element of run `run`.
  [[nodiscard]] std::int64_t begin(std::int64_t run) const {
    std::int64_t index = 0;
    std::int64_t stride = 1;
    for (std::size_t dim = shape_.size(); dim-- > 0;) {
      std::int64_t position = box_.dims[dim].begin;
      if (dim < outer_) {
        position += run % box_.dims[dim].size();
        run /= box_.dims[dim].size();
      }
      index += stride * position;
      stride *= shape_[dim];
    }
    return index;
  }

 private:
  const std::vector<std::int64_t>& shape_;
  const layout::Box& box_;
  std::size_t outer_ = shape_.size();  // dims before this one are walked run by run
  std::int64_t count_ = 1;
  std::int64_t length_ = 1;
};

template <class T>
void fill_normal(const base::ParameterSpec& parameter, const layout::Box& box, double deviation, std::uint64_t seed,
                 T* out) {
  constexpr std::int64_t piece = 1 << 14;  // elements that one thread makes at a time
  const base::Philox random(seed, base::stream_of(parameter.fqn));
  const Runs runs(parameter.shape, box);
  const std::int64_t pieces_of_run = (runs.length() + piece - 1) / piece;
  const std::int64_t grain = std::max<std::int64_t>(1, piece / std::max<std::int64_t>(runs.length(), 1));
  at::parallel_for(0, runs.count() * pieces_of_run, grain, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) {
      const std::int64_t run = i / pieces_of_run;
      const std::int64_t start = i % pieces_of_run * piece;
      const std::int64_t count = std::min(piece, runs.length() - start);
      fill_run(random, deviation, runs.begin(run) + start, count, out + run * runs.length() + start);
    }
  });
}

}  // namespace

void fill_initial_values(const base::ParameterSpec& parameter, const layout::Box& box, architecture::Initial initial,
                         double deviation, std::uint64_t seed, const at::Tensor& out) {
  base::expect(out.is_contiguous() && out.device().is_cpu(), "{}: initial values are made in contiguous host memory",
               parameter.fqn);
  base::expect(out.sizes() == at::IntArrayRef(box.shape()), "{}: the tensor has another shape than the box",
               parameter.fqn);
  base::expect(layout::intersect(box, layout::whole_box(parameter.shape)) == box, "{}: box outside the parameter",
               parameter.fqn);
  if (out.numel() == 0) return;
  if (initial != architecture::Initial::normal) {
    out.fill_(initial == architecture::Initial::ones ? 1 : 0);
  } else if (out.scalar_type() == at::kFloat) {
    fill_normal(parameter, box, deviation, seed, out.mutable_data_ptr<float>());
  } else {
    base::expect(out.scalar_type() == at::kDouble, "{}: initial values are float32 or float64", parameter.fqn);
    fill_normal(parameter, box, deviation, seed, out.mutable_data_ptr<double>());
  }
}

}  // namespace tessera::model

#include "ops/attention.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include <vector>

#include "ops/attention_gpu.h"
#include "ops/attention_kernels.h"
#include "ops/float_types.h"
#include "ops/wide_type.h"

namespace tessera::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

constexpr std::int64_t query_block = 64;  // tokens; times the query heads of a key head
constexpr std::int64_t key_block = 512;   // forward
constexpr std::int64_t key_block_back = 256;
constexpr std::int64_t score_gap = 16;  // elements between rows of scores

struct Shape {
  std::int64_t heads, kv_heads, dim;
  [[nodiscard]] std::int64_t group() const { return heads / kv_heads; }
};

// One key head of one range of tokens, which one thread computes. Its query rows are the pairs (token, query head of
// the group).
struct Part {
  std::int64_t first_token, tokens, kv_head;
};

std::vector<Part> parts_of(const at::Tensor& starts, std::int64_t kv_heads) {
  std::vector<Part> parts;
  const auto* start = starts.const_data_ptr<std::int64_t>();
  for (std::int64_t range = 0; range + 1 < starts.numel(); ++range)
    for (std::int64_t head = 0; head < kv_heads; ++head)
      parts.push_back({start[range], start[range + 1] - start[range], head});
  return parts;
}

// A tensor [tokens, heads, dim] seen from one part.
class PartView {
 public:
  PartView(at::Tensor tensor, const Part& part) : tensor_(std::move(tensor)), part_(part) {}

  // Rows of the part's key head: [count, dim], strided.
  [[nodiscard]] at::Tensor keys(std::int64_t first, std::int64_t count) const {
    const auto heads = tensor_.size(1), dim = tensor_.size(2);
    return tensor_.as_strided({count, dim}, {heads * dim, 1},
                              ((part_.first_token + first) * heads + part_.kv_head) * dim);
  }
  // First element of the group's heads of a token.
  template <class Wide>
  [[nodiscard]] Wide* group_row(std::int64_t token, std::int64_t group) const {
    return static_cast<Wide*>(tensor_.data_ptr()) +
           ((part_.first_token + token) * tensor_.size(1) + part_.kv_head * group) * tensor_.size(2);
  }

 private:
  at::Tensor tensor_;
  Part part_;
};

template <class Wide>
void copy_in(const PartView& view, std::int64_t first, std::int64_t tokens, const Shape& shape,
             const at::Tensor& block) {
  const auto row = shape.group() * shape.dim;
  auto* to = block.mutable_data_ptr<Wide>();
  for (std::int64_t t = 0; t < tokens; ++t)
    std::copy_n(view.group_row<Wide>(first + t, shape.group()), row, to + t * row);
}

// Keys that a token of the part sees within a block of keys.
std::int64_t visible(std::int64_t token, std::int64_t first_key, std::int64_t keys) {
  return std::clamp<std::int64_t>(token + 1 - first_key, 0, keys);
}

// Scratch for one thread; blocks are views of it. A few unused elements separate rows of scores: rows a power of two
// apart fall into the same cache sets, which makes the products with transposed scores a quarter slower.
class Scratch {
 public:
  Scratch(std::int64_t rows, std::int64_t columns, const at::Tensor& like, std::int64_t gap = 0)
      : gap_(gap), memory_(at::empty({rows * (columns + gap)}, like.options())) {}
  [[nodiscard]] at::Tensor block(std::int64_t rows, std::int64_t columns) const {
    return memory_.as_strided({rows, columns}, {columns + gap_, 1}, 0);
  }

 private:
  std::int64_t gap_;
  at::Tensor memory_;
};

template <class Wide>
class Forward {
 public:
  Forward(at::Tensor query, at::Tensor key, at::Tensor value, at::Tensor result, at::Tensor logsumexp, Shape shape)
      : query_(std::move(query)),
        key_(std::move(key)),
        value_(std::move(value)),
        result_(std::move(result)),
        logsumexp_(std::move(logsumexp)),
        shape_(shape) {}

  void run(const Part& part) const {
    const auto rows = query_block * shape_.group();
    const Scratch scores(rows, std::min(key_block, part.tokens), query_, score_gap), sums(rows, shape_.dim, query_),
        queries(rows, shape_.dim, query_);
    std::vector<SoftmaxState<Wide>> states;
    for (std::int64_t first = 0; first < part.tokens; first += query_block) {
      const auto tokens = std::min(query_block, part.tokens - first), block_rows = tokens * shape_.group();
      const auto q = queries.block(block_rows, shape_.dim);
      auto sum = sums.block(block_rows, shape_.dim);
      copy_in<Wide>({query_, part}, first, tokens, shape_, q);
      states.assign(static_cast<std::size_t>(block_rows), {});
      for (std::int64_t key = 0; key < first + tokens; key += key_block)
        add_keys(part, q, sum, states, scores, first, key, std::min(key_block, first + tokens - key));
      finish(part, sum, states, first);
    }
  }

 private:
  void add_keys(const Part& part, const at::Tensor& q, at::Tensor& sum, std::vector<SoftmaxState<Wide>>& states,
                const Scratch& scratch, std::int64_t first_token, std::int64_t first_key, std::int64_t keys) const {
    auto scores = scratch.block(q.size(0), keys);
    at::mm_out(scores, q, PartView(key_, part).keys(first_key, keys).t());
    auto *score = scores.template mutable_data_ptr<Wide>(), *sum_data = sum.template mutable_data_ptr<Wide>();
    const auto scale = Wide(1) / std::sqrt(static_cast<Wide>(shape_.dim));
    const auto group = shape_.group(), dim = shape_.dim, rows = q.size(0), stride = scores.stride(0);
    simd::run([&]() __attribute__((always_inline)) {
      for (std::int64_t r = 0; r < rows; ++r) {
        const auto factor = extend_softmax(states[static_cast<std::size_t>(r)], score + r * stride, scale,
                                           visible(first_token + r / group, first_key, keys), keys);
        if (first_key == 0 || factor == Wide(1)) continue;
#pragma omp simd
        for (std::int64_t c = 0; c < dim; ++c) sum_data[r * dim + c] *= factor;
      }
    });
    const auto values = PartView(value_, part).keys(first_key, keys);
    if (first_key == 0) {
      at::mm_out(sum, scores, values);
    } else {
      sum.addmm_(scores, values);
    }
  }

  void finish(const Part& part, const at::Tensor& sum, const std::vector<SoftmaxState<Wide>>& states,
              std::int64_t first_token) const {
    const auto group = shape_.group(), dim = shape_.dim;
    const PartView result(result_, part);
    const auto* from = sum.template const_data_ptr<Wide>();
    auto* logsumexp = logsumexp_.template mutable_data_ptr<Wide>();
    for (std::int64_t r = 0; r < sum.size(0); ++r) {
      const auto& state = states[static_cast<std::size_t>(r)];
      const auto token = first_token + r / group, head = r % group;
      const Wide inverse = Wide(1) / state.sum;
      Wide* to = result.group_row<Wide>(token, group) + head * dim;
      for (std::int64_t c = 0; c < dim; ++c) to[c] = from[r * dim + c] * inverse;
      logsumexp[(part.first_token + token) * shape_.heads + part.kv_head * group + head] =
          state.maximum + std::log(state.sum);
    }
  }

  at::Tensor query_, key_, value_, result_, logsumexp_;
  Shape shape_;
};

struct Gradients {
  at::Tensor query, key, value;
};

template <class Wide>
class Backward {
 public:
  struct Inputs {
    at::Tensor query, key, value, result, logsumexp, d_result;
  };
  Backward(Inputs inputs, Gradients gradients, Shape shape)
      : in_(std::move(inputs)), out_(std::move(gradients)), shape_(shape) {}

  void run(const Part& part) const {
    const auto rows = query_block * shape_.group(), keys = std::min(key_block_back, part.tokens);
    const Scratch scores(rows, keys, in_.query, score_gap), d_scores(rows, keys, in_.query, score_gap),
        queries(rows, shape_.dim, in_.query), d_results(rows, shape_.dim, in_.query),
        d_queries(rows, shape_.dim, in_.query);
    for (std::int64_t first = 0; first < part.tokens; first += query_block) {
      const auto tokens = std::min(query_block, part.tokens - first), block_rows = tokens * shape_.group();
      const auto q = queries.block(block_rows, shape_.dim), d = d_results.block(block_rows, shape_.dim);
      auto d_q = d_queries.block(block_rows, shape_.dim);
      copy_in<Wide>({in_.query, part}, first, tokens, shape_, q);
      copy_in<Wide>({in_.d_result, part}, first, tokens, shape_, d);
      const auto row_terms = terms(part, d, first, tokens);
      for (std::int64_t key = 0; key < first + tokens; key += key_block_back) {
        const auto count = std::min(key_block_back, first + tokens - key);
        add_keys(part, {q, d, d_q}, row_terms, scores.block(block_rows, count), d_scores.block(block_rows, count),
                 first, key);
      }
      copy_out(part, d_q, first, tokens);
    }
  }

 private:
  struct RowTerms {
    std::vector<Wide> logsumexp, delta;  // delta: sum of d(result) * result
  };
  struct QueryBlock {
    at::Tensor query, d_result, d_query;
  };

  RowTerms terms(const Part& part, const at::Tensor& d, std::int64_t first, std::int64_t tokens) const {
    const auto group = shape_.group(), dim = shape_.dim;
    RowTerms result;
    const auto* logsumexp = in_.logsumexp.template const_data_ptr<Wide>();
    const PartView output(in_.result, part);
    for (std::int64_t r = 0; r < tokens * group; ++r) {
      const auto token = first + r / group, head = r % group;
      result.logsumexp.push_back(logsumexp[(part.first_token + token) * shape_.heads + part.kv_head * group + head]);
      result.delta.push_back(dot(d.template const_data_ptr<Wide>() + r * dim,
                                 static_cast<const Wide*>(output.group_row<Wide>(token, group)) + head * dim, dim));
    }
    return result;
  }

  void add_keys(const Part& part, QueryBlock block, const RowTerms& row, at::Tensor scores, at::Tensor d_scores,
                std::int64_t first_token, std::int64_t first_key) const {
    const auto keys = scores.size(1), group = shape_.group(), rows = scores.size(0), stride = scores.stride(0);
    const auto k = PartView(in_.key, part).keys(first_key, keys), v = PartView(in_.value, part).keys(first_key, keys);
    at::mm_out(scores, block.query, k.t());
    at::mm_out(d_scores, block.d_result, v.t());
    auto *score = scores.template mutable_data_ptr<Wide>(), *d_score = d_scores.template mutable_data_ptr<Wide>();
    const auto scale = Wide(1) / std::sqrt(static_cast<Wide>(shape_.dim));
    simd::run([&]() __attribute__((always_inline)) {
      for (std::int64_t r = 0; r < rows; ++r)
        softmax_row_gradient(score + r * stride, d_score + r * stride, scale,
                             row.logsumexp[static_cast<std::size_t>(r)], row.delta[static_cast<std::size_t>(r)],
                             visible(first_token + r / group, first_key, keys), keys);
    });
    PartView(out_.value, part).keys(first_key, keys).addmm_(scores.t(), block.d_result);
    PartView(out_.key, part).keys(first_key, keys).addmm_(d_scores.t(), block.query);
    if (first_key == 0) {
      at::mm_out(block.d_query, d_scores, k);
    } else {
      block.d_query.addmm_(d_scores, k);
    }
  }

  void copy_out(const Part& part, const at::Tensor& d_q, std::int64_t first, std::int64_t tokens) const {
    const auto row = shape_.group() * shape_.dim;
    const PartView to(out_.query, part);
    for (std::int64_t t = 0; t < tokens; ++t)
      std::copy_n(d_q.template const_data_ptr<Wide>() + t * row, row, to.group_row<Wide>(first + t, shape_.group()));
  }

  Inputs in_;
  Gradients out_;
  Shape shape_;
};

Shape shape_of(const at::Tensor& query, const at::Tensor& key) { return {query.size(1), key.size(1), query.size(2)}; }

at::Tensor widened(const at::Tensor& tensor) {
  return tensor.detach().to(wide_type(tensor.scalar_type())).contiguous();
}

template <class Work>
void run_parts(const at::Tensor& starts, const Shape& shape, const Work& work) {
  const auto parts = parts_of(starts, shape.kv_heads);
  at::parallel_for(0, static_cast<std::int64_t>(parts.size()), 1, [&](std::int64_t begin, std::int64_t end) {
    const at::NoGradGuard no_graph;  // worker threads start with autograd enabled
    for (auto i = begin; i < end; ++i) work.run(parts[static_cast<std::size_t>(i)]);
  });
}

struct CausalAttention : Function<CausalAttention> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& query, const at::Tensor& key,
                            const at::Tensor& value, const at::Tensor& starts) {
    const auto shape = shape_of(query, key);
    const auto q = widened(query);
    auto result = at::empty_like(q), logsumexp = at::empty({q.size(0), shape.heads}, q.options());
    with_wide_type(q.scalar_type(), [&]<class Wide>() {
      run_parts(starts, shape, Forward<Wide>(q, widened(key), widened(value), result, logsumexp, shape));
    });
    result = result.to(query.scalar_type());
    context->save_for_backward({query, key, value, starts, result, logsumexp});
    return result;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const auto &query = saved[0], &key = saved[1], &value = saved[2];
    const auto shape = shape_of(query, key);
    const auto q = widened(query), k = widened(key), v = widened(value);
    const Gradients out{at::empty_like(q), at::zeros_like(k), at::zeros_like(v)};
    with_wide_type(q.scalar_type(), [&]<class Wide>() {
      run_parts(saved[3], shape,
                Backward<Wide>({q, k, v, widened(saved[4]), saved[5], widened(gradients[0])}, out, shape));
    });
    const auto type = query.scalar_type();
    return {out.query.to(type), out.key.to(type), out.value.to(type), {}};
  }
};

void check(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const at::Tensor& starts) {
  base::expect(query.dim() == 3 && key.dim() == 3 && key.sizes() == value.sizes() && key.size(0) == query.size(0) &&
                   key.size(2) == query.size(2) && key.size(1) > 0 && query.size(1) % key.size(1) == 0,
               "causal_attention: query [tokens, heads, dim], key and value [tokens, kv_heads, dim] do not fit");
  base::expect(starts.dim() == 1 && starts.scalar_type() == at::kLong && starts.is_cpu() && starts.is_contiguous() &&
                   starts.numel() > 0,
               "causal_attention: starts are not [ranges + 1] int64 on the CPU");
  const auto* start = starts.const_data_ptr<std::int64_t>();
  const auto count = starts.numel();
  base::expect(start[0] == 0 && start[count - 1] == query.size(0) && std::is_sorted(start, start + count),
               "causal_attention: starts do not ascend from 0 to {}", query.size(0));
}

}  // namespace

at::Tensor causal_attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                            const at::Tensor& starts) {
  check(query, key, value, starts);
  if (!query.is_cpu()) return gpu::causal_attention(query, key, value, starts);
  return CausalAttention::apply(query, key, value, starts);
}

}  // namespace tessera::ops

#include "ops/attention_gpu.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/scaled_dot_product_attention.h>

#include <vector>

namespace tessera::ops::gpu {
namespace {

// Ranges of `length` tokens each, one after the other.
struct Ranges {
  std::int64_t first, count, length;
};

std::vector<Ranges> equal_ranges(const at::Tensor& starts) {
  const auto* start = starts.const_data_ptr<std::int64_t>();
  std::vector<Ranges> list;
  for (std::int64_t k = 0; k + 1 < starts.numel(); ++k) {
    const auto length = start[k + 1] - start[k];
    if (length == 0) continue;
    if (!list.empty() && list.back().length == length)
      ++list.back().count;
    else
      list.push_back({start[k], 1, length});
  }
  return list;
}

// [tokens, heads, dim] -> [ranges, heads, length, dim], a view.
at::Tensor by_range(const at::Tensor& rows, const Ranges& r) {
  return rows.narrow(0, r.first, r.count * r.length)
      .view({r.count, r.length, rows.size(1), rows.size(2)})
      .transpose(1, 2);
}

// Repeats key heads for float32, whose kernels need as many key heads as query heads.
at::Tensor for_each_query_head(const at::Tensor& heads, std::int64_t query_heads) {
  const auto group = query_heads / heads.size(1);
  if (group == 1 || heads.scalar_type() != at::kFloat) return heads;
  return heads.unsqueeze(2)
      .expand({heads.size(0), heads.size(1), group, heads.size(2), heads.size(3)})
      .reshape({heads.size(0), query_heads, heads.size(2), heads.size(3)});
}

at::Tensor attend(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const Ranges& r) {
  const auto heads = query.size(1);
  const auto k = for_each_query_head(by_range(key, r), heads), v = for_each_query_head(by_range(value, r), heads);
  const auto result =
      at::scaled_dot_product_attention(by_range(query, r), k, v, /*attn_mask=*/{}, /*dropout_p=*/0, /*is_causal=*/true,
                                       /*scale=*/std::nullopt, /*enable_gqa=*/k.size(1) != heads);
  return result.transpose(1, 2).reshape({r.count * r.length, heads, query.size(2)});
}

}  // namespace

at::Tensor causal_attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                            const at::Tensor& starts) {
  std::vector<at::Tensor> parts;
  for (const auto& r : equal_ranges(starts)) parts.push_back(attend(query, key, value, r));
  if (parts.size() == 1) return parts.front();
  // Without tokens the result is empty, but part of the graph.
  return parts.empty() ? query.view_as(query) : at::cat(parts);
}

}  // namespace tessera::ops::gpu

#include "comm/reduction.h"

#include "comm/element_values.h"

namespace tessera::comm {

namespace {

using device::narrow;
using device::widened;

// Throws std::logic_error if there is no such type.
template <class Body>
void with_legal_types(ElementType type, Body&& body) {
  static_cast<void>(element_bytes(type));
  with_types(type, body);
}

// Applies `change` to each pair of elements of two arrays that do not overlap.
template <class To, class From, class Change>
void for_each_pair(void* to, const void* from, std::int64_t elements, Change change) {
  auto* __restrict target = static_cast<To*>(to);
  const auto* __restrict source = static_cast<const From*>(from);
  for (std::int64_t k = 0; k < elements; ++k) change(target[k], source[k]);
}

// Combines each element of `total` with that of `values` and calls change(element of `to`, combined value). No two
// arrays overlap.
template <class Total, class Value, class Change>
void for_each_triple(void* to, const void* total, const void* values, std::int64_t elements, ReduceOperation operation,
                     Change change) {
  auto* __restrict target = static_cast<Total*>(to);
  const auto* __restrict first = static_cast<const Total*>(total);
  const auto* __restrict second = static_cast<const Value*>(values);
  if (operation == ReduceOperation::add)
    for (std::int64_t k = 0; k < elements; ++k) change(target[k], static_cast<Total>(first[k] + widened(second[k])));
  else
    for (std::int64_t k = 0; k < elements; ++k) change(target[k], larger<Total>(first[k], widened(second[k])));
}

}  // namespace

ElementType total_type(ElementType type) { return type == ElementType::bfloat16 ? ElementType::float32 : type; }

void start_total(void* total, const void* values, std::int64_t elements, ElementType type) {
  with_legal_types(type, [&]<class Value, class Total>(Value, Total) {
    for_each_pair<Total, Value>(total, values, elements, [](Total& t, const Value& v) { t = widened(v); });
  });
}

void combine(void* total, const void* values, std::int64_t elements, ElementType type, ReduceOperation operation) {
  with_legal_types(type, [&]<class Value, class Total>(Value, Total) {
    if (operation == ReduceOperation::add)
      for_each_pair<Total, Value>(total, values, elements, [](Total& t, const Value& v) { t += widened(v); });
    else
      for_each_pair<Total, Value>(total, values, elements,
                                  [](Total& t, const Value& v) { t = larger<Total>(t, widened(v)); });
  });
}

void combine_into(void* to, const void* total, const void* values, std::int64_t elements, ElementType type,
                  ReduceOperation operation) {
  with_legal_types(type, [&]<class Value, class Total>(Value, Total) {
    for_each_triple<Total, Value>(to, total, values, elements, operation, [](Total& t, Total v) { t = v; });
  });
}

void add_combined(void* sum, const void* total, const void* values, std::int64_t elements, ElementType type,
                  ReduceOperation operation) {
  with_legal_types(type, [&]<class Value, class Total>(Value, Total) {
    for_each_triple<Total, Value>(sum, total, values, elements, operation, [](Total& t, Total v) { t += v; });
  });
}

void store_total(void* values, const void* total, std::int64_t elements, ElementType type) {
  with_legal_types(type, [&]<class Value, class Total>(Value, Total) {
    for_each_pair<Value, Total>(values, total, elements, [](Value& v, const Total& t) { narrow(t, v); });
  });
}

void add_total(void* sum, const void* total, std::int64_t elements, ElementType type) {
  combine(sum, total, elements, total_type(type), ReduceOperation::add);
}

}  // namespace tessera::comm

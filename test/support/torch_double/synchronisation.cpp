#include "support/torch_double/synchronisation.h"

#include <mutex>
#include <set>

#include "support/torch_double/backing.h"
#include "support/torch_double/torch_double.h"

namespace tessera::test::torch_double {
namespace {

std::mutex mutex;
std::vector<std::string> synchronised;
std::map<std::string, std::int64_t> launched;

// Results whose size, or value on the host, depends on data of the device.
const std::set<std::string> synchronising{
    "aten::_local_scalar_dense",
    "aten::nonzero",
    "aten::masked_select",
    "aten::_unique",
    "aten::_unique2",
    "aten::unique_dim",
    "aten::unique_consecutive",
    "aten::unique_dim_consecutive",
    "aten::bincount",
    "aten::equal",
    "aten::multinomial",
    "aten::histc",
    "aten::is_nonzero",
};

bool is_mask(const at::Tensor& index) {
  return index.defined() && (index.scalar_type() == at::kBool || index.scalar_type() == at::kByte);
}

bool has_mask(const c10::IValue& indices) {
  if (indices.isOptionalTensorList()) {
    for (const std::optional<at::Tensor> index : indices.toOptionalTensorList())
      if (index.has_value() && is_mask(*index)) return true;
  } else if (indices.isTensorList()) {
    for (const at::Tensor& index : indices.toTensorVector())
      if (is_mask(index)) return true;
  }
  return false;
}

bool synchronises(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> arguments) {
  const auto& name = op.operator_name().name;
  if (synchronising.count(name) != 0) return true;
  if (name == "aten::repeat_interleave") return arguments.size() == 2 && arguments[1].isNone();
  // (aten::index asks for nonzero by itself.)
  if (name == "aten::_index_put_impl_") return has_mask(arguments[1]);
  return false;
}

}  // namespace

void count_launch(const std::string& name) {
  const std::lock_guard lock(mutex);
  ++launched[name];
}

void count_operation(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> arguments) {
  const auto& name = op.operator_name().name;
  count_launch(name);
  if (synchronises(op, arguments)) count_synchronisation(name);
}

void count_synchronisation(const std::string& name) {
  host_waits();
  const std::lock_guard lock(mutex);
  synchronised.push_back(name);
}

std::vector<std::string> counted_synchronisations() {
  const std::lock_guard lock(mutex);
  return synchronised;
}

void reset_synchronisations() {
  const std::lock_guard lock(mutex);
  synchronised.clear();
}

std::map<std::string, std::int64_t> launches() {
  const std::lock_guard lock(mutex);
  return launched;
}

std::int64_t launch_count() {
  std::int64_t count = 0;
  for (const auto& [name, times] : launches()) count += times;
  return count;
}

void reset_launches() {
  const std::lock_guard lock(mutex);
  launched.clear();
}

}  // namespace tessera::test::torch_double

#include "support/torch_double/determinism.h"

#include <ATen/Context.h>

#include <cstdlib>
#include <set>

namespace tessera::test::torch_double {
namespace {

const std::set<std::string> by_cublas{"aten::mm",     "aten::addmm",  "aten::bmm",    "aten::baddbmm",
                                      "aten::addbmm", "aten::mv",     "aten::addmv",  "aten::dot",
                                      "aten::vdot",   "aten::addmv_", "aten::addmm_", "aten::baddbmm_"};
const std::set<std::string> never{"aten::histc", "aten::kthvalue",           "aten::median",
                                  "aten::put_",  "aten::nll_loss2d_forward", "aten::_ctc_loss"};

bool has_workspace() {
  const auto* setting = std::getenv("CUBLAS_WORKSPACE_CONFIG");
  return setting != nullptr && (std::string(setting) == ":4096:8" || std::string(setting) == ":16:8");
}

bool is_refused(const std::string& operation, c10::ArrayRef<c10::IValue> arguments) {
  if (operation == "aten::cumsum" || operation == "aten::cumsum_")
    return !at::isIntegralType(arguments[0].toTensor().scalar_type(), /*includeBool=*/true);
  if (operation == "aten::bincount") return arguments[1].isTensor() && arguments[1].toTensor().defined();
  return never.count(operation) != 0;
}

}  // namespace

void require_deterministic(const std::string& operation, c10::ArrayRef<c10::IValue> arguments) {
  const auto& context = at::globalContext();
  if (!context.deterministicAlgorithms() || context.deterministicAlgorithmsWarnOnly()) return;
  TORCH_CHECK(by_cublas.count(operation) == 0 || has_workspace(), operation,
              ": deterministic algorithms need CUBLAS_WORKSPACE_CONFIG=:4096:8 or :16:8 in the environment");
  TORCH_CHECK(!is_refused(operation, arguments), operation, " does not have a deterministic implementation on a GPU");
}

}  // namespace tessera::test::torch_double

// Forward declaration of at::Tensor, for headers that need only references to it.
#pragma once

namespace at {
class Tensor;
}

// Forward declaration of a tensor, for headers in which a reference is enough.
#pragma once

namespace at {
class Tensor;
}

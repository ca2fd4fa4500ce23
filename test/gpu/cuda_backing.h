// Chooses the GPU of this process on the double of CUDA (cuda_backing.cpp).
#pragma once

namespace tessera::test {

// LibTorch's operations and memory are this GPU's from now on, whatever thread they come from, as its guards see to it.
void use_gpu_of_double(int index);

}  // namespace tessera::test

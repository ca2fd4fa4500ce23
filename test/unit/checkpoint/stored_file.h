// Safetensors files for tests, correct ones and false ones.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::checkpoint {

// Returns the bytes of a file with this header, which states `length` as the header's length.
inline std::string file_bytes(std::uint64_t length, std::string_view header, std::size_t data_bytes) {
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  bytes += header;
  bytes.append(data_bytes, '\1');
  return bytes;
}

inline std::string file_bytes(std::string_view header, std::size_t data_bytes) {
  return file_bytes(header.size(), header, data_bytes);
}

struct TestTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  float first = 0;  // element k is first + k, float32
};

// Returns the bytes of a correct file.
inline std::string file_of(const std::vector<TestTensor>& tensors) {
  std::string header = "{", data;
  for (const TestTensor& tensor : tensors) {
    std::int64_t count = 1;
    std::string shape;
    for (const std::int64_t size : tensor.shape) {
      count *= size;
      shape += (shape.empty() ? "" : ",") + std::to_string(size);
    }
    const std::size_t begin = data.size();
    for (std::int64_t k = 0; k < count; ++k) {
      const float element = tensor.first + static_cast<float>(k);
      char bytes[sizeof element];
      std::memcpy(bytes, &element, sizeof element);
      data.append(bytes, sizeof element);
    }
    header += fmt::format(R"({}"{}":{{"dtype":"F32","shape":[{}],"data_offsets":[{},{}]}})", header == "{" ? "" : ",",
                          tensor.name, shape, begin, data.size());
  }
  header += "}";
  return file_bytes(header, 0) + data;
}

}  // namespace tessera::checkpoint

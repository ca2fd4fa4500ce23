// Small benchmarks of rooms ops and moe on one thread, at the sizes of the benchmark's model. Prints Markdown.
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <malloc.h>

#include <cstdio>

#include "bench/benches.h"

namespace tessera::bench {

void print_row(const std::string& what, const std::string& ours, const std::string& reference, double ratio) {
  fmt::print("| {} | {} | {} | {:.2f} |\n", what, ours, reference, ratio);
  std::fflush(stdout);
}

}  // namespace tessera::bench

int main() {
  // As comm::World: freed memory stays with the process.
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, 2'000'000'000);
  at::set_num_threads(1);
  fmt::print("| | ours | compared with | ratio |\n| --- | --- | --- | --- |\n");
  tessera::bench::bench_chunked_loss();  // first: its memory is measured, and freed memory of others would hide some
  tessera::bench::bench_grouped_products();
  tessera::bench::bench_permutation();
  tessera::bench::bench_attention();
  return 0;
}

// The benchmarks of bench_ops: each prints rows of "what | ours | compared with | ratio".
#pragma once

#include <string>

namespace tessera::bench {

// Prints a row. The ratio is reference / ours: above 1 we are faster (or smaller).
void print_row(const std::string& what, const std::string& ours, const std::string& reference, double ratio);

void bench_grouped_products();
void bench_permutation();
void bench_chunked_loss();
void bench_attention();

}  // namespace tessera::bench

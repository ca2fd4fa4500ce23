// Measures repeated calls, for the small benchmarks. These run on one thread and wait for nothing, so the processor
// time of the thread counts: other processes disturb the figures only through the caches.
#pragma once

#include <time.h>

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace tessera::bench {

// Returns the processor seconds of the calling thread.
inline double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

inline double median(std::vector<double> times) {
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

// Returns the median time of as many calls as fit into `budget` seconds, at least five, after one warm-up call.
template <class Body>
double median_seconds(const Body& body, double budget = 0.7) {
  body();
  std::vector<double> times;
  double spent = 0;
  while (times.size() < 5 || spent < budget) {
    const double began = thread_seconds();
    body();
    times.push_back(thread_seconds() - began);
    spent += times.back();
  }
  return median(std::move(times));
}

// Median times of two bodies that are called in turn, so that a disturbance of the machine meets both.
struct TwoTimes {
  double first = 0, second = 0;
};
template <class First, class Second>
TwoTimes median_seconds_of_both(const First& first, const Second& second, double budget = 1.5) {
  first();
  second();
  std::vector<double> a, b;
  double spent = 0;
  while (a.size() < 5 || spent < budget) {
    const double began = thread_seconds();
    first();
    const double between = thread_seconds();
    second();
    const double end = thread_seconds();
    a.push_back(between - began);
    b.push_back(end - between);
    spent += end - began;
  }
  return {median(std::move(a)), median(std::move(b))};
}

}  // namespace tessera::bench

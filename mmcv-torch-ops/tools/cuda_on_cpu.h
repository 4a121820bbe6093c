// Stands in for the CUDA headers, so that a C++ compiler takes CUDA kernels and their launchers as they are. The
// threads of a block run one after the other. One that comes to a barrier waits, on a stack of its own, until every
// other thread of its block has come there or has ended: blocks with barriers, shared memory and warp shuffles give
// their real result.
#pragma once

#include <float.h>
#include <math.h>
#include <torch/extension.h>
#include <ucontext.h>

#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#define __global__
#define __device__
#define __forceinline__ inline
#define __shared__ thread_local  // one copy for all threads of a block: they run on one thread of the system
#define __PHALF(x) (x)

// Half precision is left out, but CARAFE's warp sum names its types.
#undef AT_DISPATCH_FLOATING_TYPES_AND_HALF
#define AT_DISPATCH_FLOATING_TYPES_AND_HALF AT_DISPATCH_FLOATING_TYPES
struct __half {
  float value;
};
struct phalf {
  float value;
  operator __half() const { return {value}; }
  phalf &operator+=(__half other) {
    value += other.value;
    return *this;
  }
};

using at::Tensor;

// The host's side: there is one device and one stream, and nothing fails.
using cudaStream_t = int;
using cudaError_t = int;
constexpr cudaError_t cudaSuccess = 0;
inline cudaError_t cudaGetLastError() { return cudaSuccess; }
inline const char *cudaGetErrorString(cudaError_t) { return ""; }
#define AT_CUDA_CHECK(error) (void)(error)
namespace at::cuda {
struct CUDAGuard {
  explicit CUDAGuard(c10::Device) {}
};
inline cudaStream_t getCurrentCUDAStream() { return 0; }
}  // namespace at::cuda

struct dim3 {
  unsigned x, y, z;
  dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};
inline dim3 gridDim, blockDim, blockIdx, threadIdx;

// CUDA's own: of a number and a NaN, those of floats return the number.
inline int min(int a, int b) { return a < b ? a : b; }
inline int max(int a, int b) { return a > b ? a : b; }
inline float min(float a, float b) { return fminf(a, b); }
inline float max(float a, float b) { return fmaxf(a, b); }
inline double min(double a, double b) { return fmin(a, b); }
inline double max(double a, double b) { return fmax(a, b); }

template <typename T>
T atomicAdd(T *address, T value) {
  T old = *address;
  *address += value;
  return old;
}

namespace cuda_on_cpu {

constexpr size_t kStack = 65536;
constexpr unsigned kMaxThreads = 1024, kWarp = 32;

// A stack on which threads run one after the other; one of them may be waiting at a barrier.
struct Fiber {
  ucontext_t context;
  std::unique_ptr<char[]> stack{new char[kStack]};
  bool waiting = false;
};

inline std::vector<std::unique_ptr<Fiber>> fibers;
inline Fiber *running;
inline ucontext_t scheduler;
inline std::function<void()> kernel;
inline unsigned next_thread, num_threads;

inline unsigned thread_number() { return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z); }

inline void run_threads() {
  while (next_thread < num_threads) {
    const unsigned thread = next_thread++;
    threadIdx = dim3(thread % blockDim.x, thread / blockDim.x % blockDim.y, thread / blockDim.x / blockDim.y);
    kernel();
  }
}

inline void resume(Fiber &fiber) {
  running = &fiber;
  fiber.waiting = false;
  swapcontext(&scheduler, &fiber.context);
}

inline void start(Fiber &fiber) {
  getcontext(&fiber.context);
  fiber.context.uc_stack.ss_sp = fiber.stack.get();
  fiber.context.uc_stack.ss_size = kStack;
  fiber.context.uc_link = &scheduler;
  makecontext(&fiber.context, &run_threads, 0);
  resume(fiber);
}

inline void run_block() {
  next_thread = 0;
  num_threads = blockDim.x * blockDim.y * blockDim.z;
  size_t used = 0;
  for (; next_thread < num_threads; ++used) {
    if (used == fibers.size()) fibers.push_back(std::make_unique<Fiber>());
    start(*fibers[used]);
  }
  for (bool waiting = true; waiting;) {
    waiting = false;
    for (size_t i = 0; i < used; ++i) {
      if (!fibers[i]->waiting) continue;
      waiting = true;
      resume(*fibers[i]);
    }
  }
}

// kernel<<<grid, block, ...>>>(arguments) is rewritten to launch(kernel, grid, block, ...)(arguments).
template <typename... Args>
auto launch(void (*function)(Args...), dim3 grid, dim3 block, size_t /* shared */, cudaStream_t) {
  return [=](std::type_identity_t<Args>... args) {
    TORCH_CHECK(block.x * block.y * block.z <= kMaxThreads, "too many threads in a block");
    gridDim = grid;
    blockDim = block;
    kernel = [=] { function(args...); };
    for (unsigned i = 0; i < grid.x * grid.y * grid.z; ++i) {
      blockIdx = dim3(i % grid.x, i / grid.x % grid.y, i / grid.x / grid.y);
      run_block();
    }
  };
}

}  // namespace cuda_on_cpu

inline void __syncthreads() {
  cuda_on_cpu::Fiber *self = cuda_on_cpu::running;
  const dim3 thread = threadIdx;
  self->waiting = true;
  swapcontext(&self->context, &cuda_on_cpu::scheduler);
  threadIdx = thread;
}

// A wait for the whole block is a wait for the warp as well.
inline void __syncwarp() { __syncthreads(); }

template <typename T>
T __shfl_down_sync(unsigned /* mask */, T value, unsigned delta) {
  static char values[cuda_on_cpu::kMaxThreads][sizeof(T)];
  const unsigned self = cuda_on_cpu::thread_number();
  const unsigned source = self % cuda_on_cpu::kWarp + delta < cuda_on_cpu::kWarp ? self + delta : self;
  std::memcpy(values[self], &value, sizeof(T));
  __syncthreads();
  std::memcpy(&value, values[source], sizeof(T));
  __syncthreads();
  return value;
}

#include "common_cuda_helper.hpp"

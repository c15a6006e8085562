// Right programs and hazardous twins around launches: streams, events, graphs, frees, the host, dependent launches.
// ./launches PAIR safe, or ./launches PAIR hazardous. Each pair names its kind and the report that a twin must have.
#include <cstdio>
#include <cstring>
#include <cuda_runtime.h>

const int N = 256, BYTES = 4 * N;
float *x, *y, *z, *host;
cudaStream_t a, b, c, blocking;
bool safe;

__device__ float symbol[N];
#define I (blockIdx.x * blockDim.x + threadIdx.x)
__global__ void put(float *x, float v) { x[I] = v; }
__global__ void add(const float *x, float *y) { y[I] = x[I] + 1; }
__global__ void add_symbol(float *y) { y[I] = symbol[I % N]; }
__global__ void trigger_put(float *x, float v) { cudaTriggerProgrammaticLaunchCompletion(); x[I] = v; }
__global__ void trigger_add(const float *x, float *y) { cudaTriggerProgrammaticLaunchCompletion(); y[I] = x[I] + 1; }
__global__ void wait_put(float *x, float v) { cudaGridDependencySynchronize(); x[I] = v; }
__global__ void wait_add(const float *x, float *y) { cudaGridDependencySynchronize(); y[I] = x[I] + 1; }
__global__ void wait_trigger_add(const float *x, float *y) {
  cudaGridDependencySynchronize(), cudaTriggerProgrammaticLaunchCompletion();
  y[I] = x[I] + 1;
}
__global__ void one_warp_waits(const float *x, float *y) {
  if (threadIdx.x < 32) cudaGridDependencySynchronize();
  y[I] = x[I] + 1;
}
__global__ void one_warp_waits_for_all(const float *x, float *y) {
  if (threadIdx.x < 32) cudaGridDependencySynchronize();
  __syncthreads();
  y[I] = x[I] + 1;
}
__global__ void trigger_put_symbol(float *, float v) { cudaTriggerProgrammaticLaunchCompletion(); symbol[I] = v; }
__global__ void add_symbol_then_wait(const float *, float *y) {
  float early = symbol[I];
  cudaGridDependencySynchronize();
  y[I] = early + 1;
}
__global__ void wait_add_symbol(const float *, float *y) { cudaGridDependencySynchronize(); y[I] = symbol[I] + 1; }
__global__ void trigger_wait_add(const float *x, float *y) {
  cudaTriggerProgrammaticLaunchCompletion(), cudaGridDependencySynchronize();
  y[I] = x[I] + 1;
}

void on(cudaStream_t s, void (*kernel)(float *, float), float *x) { kernel<<<2, N / 2, 0, s>>>(x, 1); }
void on(cudaStream_t s, void (*kernel)(const float *, float *), const float *x, float *y) {
  kernel<<<2, N / 2, 0, s>>>(x, y);
}
template <class... P, class... A> void dependent(cudaStream_t s, void (*kernel)(P...), A... given) {
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {dim3(2), dim3(N / 2), 0, s, &attribute, 1};
  cudaLaunchKernelEx(&config, kernel, P(given)...);
}
void with_event(cudaEvent_t event, bool at_start) {
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeProgrammaticEvent;
  attribute.val.programmaticEvent.event = event;
  attribute.val.programmaticEvent.triggerAtBlockStart = at_start;
  cudaLaunchConfig_t config = {dim3(2), dim3(N / 2), 0, a, &attribute, 1};
  cudaLaunchKernelEx(&config, trigger_put, x, 1.f);
}
cudaEvent_t event(unsigned flags = cudaEventDisableTiming) {
  cudaEvent_t made;
  cudaEventCreateWithFlags(&made, flags);
  return made;
}
void order(cudaStream_t first, cudaStream_t second) {
  cudaEvent_t between = event();
  cudaEventRecord(between, first);
  cudaStreamWaitEvent(second, between, 0);
}
template <class F> cudaGraphExec_t captured(F work) {
  cudaGraph_t graph;
  cudaGraphExec_t made;
  cudaStreamBeginCapture(a, cudaStreamCaptureModeGlobal);
  work();
  cudaStreamEndCapture(a, &graph);
  cudaGraphInstantiate(&made, graph, 0);
  return made;
}
cudaGraphNode_t node(cudaGraph_t graph, void *kernel, void **given) {
  cudaGraphNode_t made;
  cudaKernelNodeParams p = {};
  p.func = kernel, p.gridDim = 2, p.blockDim = N / 2, p.kernelParams = given;
  cudaGraphAddKernelNode(&made, graph, nullptr, 0, &p);
  return made;
}
void two_nodes(void *first, void *second, int edge) {
  cudaGraph_t graph;
  cudaGraphExec_t made;
  float one = 1;
  void *writes[] = {&x, &one}, *reads[] = {&x, &y};
  cudaGraphCreate(&graph, 0);
  cudaGraphNode_t from = node(graph, first, writes), to = node(graph, second, reads);
  cudaGraphEdgeData data = {};
  data.from_port = edge == 2 ? cudaGraphKernelNodePortProgrammatic : 0;
  data.type = edge == 2 ? cudaGraphDependencyTypeProgrammatic : cudaGraphDependencyTypeDefault;
  if (edge) cudaGraphAddDependencies(graph, &from, &to, &data, 1);
  cudaGraphInstantiate(&made, graph, 0);
  cudaGraphLaunch(made, a);
}
void copy_box(cudaStream_t s) {
  cudaMemcpy3DParms p = {};
  p.srcPtr = make_cudaPitchedPtr(x, 64, 16, 4), p.dstPtr = make_cudaPitchedPtr(y, 64, 16, 4);
  p.extent = make_cudaExtent(64, 2, 2), p.kind = cudaMemcpyDeviceToDevice;
  cudaMemcpy3DAsync(&p, s);
}
void fill(void *to) { for (int i = 0; i < N; ++i) ((float *)to)[i] = 3; }
float *allocated(cudaStream_t s) {
  float *made;
  cudaMallocAsync((void **)&made, BYTES, s);
  return made;
}
float *managed() {
  float *made;
  cudaMallocManaged(&made, BYTES);
  return made;
}

struct Pair { const char *kind, *name, *expected; void (*run)(); };
const Pair PAIRS[] = {
  {"streams and events", "event", "DataRace", [] { on(a, put, x); if (safe) order(a, b); on(b, add, x, y); }},
  {"streams and events", "event-recorded-early", "DataRace", [] {
    cudaEvent_t e = event();
    if (!safe) cudaEventRecord(e, a);
    on(a, put, x);
    if (safe) cudaEventRecord(e, a);
    cudaStreamWaitEvent(b, e, 0), on(b, add, x, y); }},
  {"streams and events", "event-interprocess", "DataRace", [] {
    cudaEvent_t e = event(cudaEventDisableTiming | cudaEventInterprocess);
    if (!safe) cudaStreamWaitEvent(b, e, 0);
    on(a, put, x), cudaEventRecord(e, a);
    if (safe) cudaStreamWaitEvent(b, e, 0);
    on(b, add, x, y); }},
  {"streams and events", "chain-of-events", "DataRace", [] {
    on(a, put, x), order(a, c);
    if (safe) order(c, b);
    on(b, add, x, y); }},
  {"streams and events", "event-recorded-again", "DataRace", [] {
    cudaEvent_t e = event();
    on(a, put, z), cudaEventRecord(e, a);
    if (!safe) cudaStreamWaitEvent(b, e, 0);
    on(a, put, x), cudaEventRecord(e, a);
    if (safe) cudaStreamWaitEvent(b, e, 0);
    on(b, add, z, y), on(b, add, x, y); }},
  {"streams and events", "event-never-recorded", "DataRace", [] {
    cudaEvent_t e = event();
    on(a, put, x);
    if (safe) cudaEventRecord(e, a);
    cudaStreamWaitEvent(b, e, 0), on(b, add, x, y); }},
  {"streams and events", "legacy-stream", "DataRace", [] { on(0, put, x), on(safe ? blocking : a, add, x, y); }},
  {"streams and events", "per-thread-stream", "DataRace", [] {
    on(cudaStreamPerThread, put, x), on(safe ? cudaStreamLegacy : blocking, add, x, y); }},
  {"copies and fills", "copy-2d", "StreamRace", [] {
    on(a, put, x);
    if (safe) order(a, b);
    cudaMemcpy2DAsync(y, 64, x, 128, 32, 4, cudaMemcpyDeviceToDevice, b); }},
  {"copies and fills", "columns", "StreamRace", [] {
    int width = safe ? 64 : 96;
    cudaMemcpy2DAsync(y, 128, z, width, width, 4, cudaMemcpyDeviceToDevice, a);
    cudaMemcpy2DAsync((char *)y + 64, 128, x, 64, 64, 4, cudaMemcpyDeviceToDevice, b); }},
  {"copies and fills", "copy-3d", "StreamRace", [] { on(a, put, x); if (safe) order(a, b); copy_box(b); }},
  {"copies and fills", "fill-2d", "StreamRace", [] {
    on(a, put, x);
    if (safe) order(a, b);
    cudaMemset2DAsync(x, 64, 0, 32, 4, b); }},
  {"copies and fills", "symbol", "StreamRace", [] {
    add_symbol<<<1, N, 0, a>>>(y);
    if (safe) order(a, b);
    cudaMemcpyToSymbolAsync(symbol, x, BYTES, 0, cudaMemcpyDeviceToDevice, b); }},
  {"frees", "allocated-on-another-stream", "DataRace", [] {
    float *m = allocated(a);
    if (safe) order(a, b);
    on(b, put, m); }},
  {"frees", "freed-on-another-stream", "StreamRace", [] {
    float *m = allocated(a);
    order(a, b), on(b, put, m);
    if (safe) order(b, a);
    cudaFreeAsync(m, a); }},
  {"frees", "freed-before-use", "OutOfBounds", [] {
    float *m = allocated(a);
    on(a, put, m);
    if (!safe) cudaFreeAsync(m, a);
    on(a, add, m, y);
    if (safe) cudaFreeAsync(m, a); }},
  {"frees", "freed-and-allocated-again", "OutOfBounds", [] {
    float *m = allocated(a), *again;
    on(a, put, m), cudaFreeAsync(m, a), again = allocated(b), on(b, put, again);
    on(b, add, safe ? again : m, y); }},
  {"frees", "freed-before-replay", "OutOfBounds", [] {
    float *m;
    cudaMalloc(&m, BYTES);
    cudaGraphExec_t graph = captured([=] { on(a, add, m, y); });
    if (!safe) cudaFree(m);
    cudaGraphLaunch(graph, a); }},
  {"the host", "pinned-read", "StreamRace", [] {
    cudaMemcpyAsync(host, x, BYTES, cudaMemcpyDeviceToHost, a);
    if (safe) while (cudaStreamQuery(a) == cudaErrorNotReady) {}
    printf("%g\n", host[0]); }},
  {"the host", "pinned-refilled", "StreamRace", [] {
    cudaMemcpyAsync(x, host, BYTES, cudaMemcpyHostToDevice, a);
    if (safe) cudaStreamSynchronize(a);
    memset(host, 0, BYTES); }},
  {"the host", "query", "StreamRace", [] {
    cudaMemcpyAsync(host, x, BYTES, cudaMemcpyDeviceToHost, a);
    cudaError_t done = cudaStreamQuery(a);
    while (safe && done != cudaSuccess) done = cudaStreamQuery(a);
    printf("%g\n", host[0]); }},
  {"the host", "event-query", "StreamRace", [] {
    cudaEvent_t e = event();
    cudaMemcpyAsync(host, x, BYTES, cudaMemcpyDeviceToHost, a), cudaEventRecord(e, a);
    if (cudaEventQuery(e) == cudaErrorNotReady && safe) cudaEventSynchronize(e);
    printf("%g\n", host[0]); }},
  {"the host", "staging-buffer", "StreamRace", [] {
    cudaEvent_t copied[] = {event(), event()};
    for (int i = 0; i < 3; ++i) {
      if (i) cudaEventSynchronize(copied[safe ? (i + 1) % 2 : i % 2]);
      fill(host), cudaMemcpyAsync(x, host, BYTES, cudaMemcpyHostToDevice, a), cudaEventRecord(copied[i % 2], a);
    } }},
  {"the host", "managed-read", "StreamRace", [] {
    float *m = managed();
    on(a, put, m);
    if (safe) cudaDeviceSynchronize();
    printf("%g\n", m[3]); }},
  {"the host", "managed-filled", "StreamRace", [] {
    float *m = managed();
    cudaMemsetAsync(m, 0, BYTES, a);
    if (safe) cudaStreamSynchronize(a);
    printf("%g\n", m[0]); }},
  {"the host", "function-of-a-stream", "StreamRace", [] {
    cudaLaunchHostFunc(a, fill, host);
    if (safe) order(a, b);
    cudaMemcpyAsync(x, host, BYTES, cudaMemcpyHostToDevice, b); }},
  {"graphs", "branches", "DataRace", [] {
    cudaGraphLaunch(captured([] {
      on(a, put, x), order(a, b), on(a, put, z), on(b, add, safe ? x : z, y), order(b, a); }), a); }},
  {"graphs", "beside-a-stream", "DataRace", [] {
    cudaGraphLaunch(captured([] { on(a, put, x); }), a);
    if (safe) order(a, b);
    on(b, add, x, y); }},
  {"graphs", "source-of-a-replay", "StreamRace", [] {
    cudaGraphExec_t graph = captured([] { cudaMemcpyAsync(x, host, BYTES, cudaMemcpyHostToDevice, a); });
    for (int i = 0; i < 2; ++i) {
      fill(host), cudaGraphLaunch(graph, a);
      if (safe) cudaStreamSynchronize(a);
    } }},
  {"graphs", "two-graphs", "DataRace", [] {
    cudaGraphExec_t first = captured([] { on(a, put, x); }), second = captured([] { on(a, add, x, y); });
    cudaGraphLaunch(first, a);
    if (safe) order(a, b);
    cudaGraphLaunch(second, b); }},
  {"graphs", "external-event", "DataRace", [] {
    cudaEvent_t e = event();
    cudaGraphExec_t graph = captured([=] {
      on(a, put, safe ? x : z), cudaEventRecordWithFlags(e, a, cudaEventRecordExternal), on(a, put, safe ? z : x); });
    cudaGraphLaunch(graph, a), cudaStreamWaitEvent(b, e, 0), on(b, add, x, y); }},
  {"graphs", "external-wait", "DataRace", [] {
    cudaEvent_t e = event();
    cudaGraphExec_t graph = captured([=] {
      if (safe) cudaStreamWaitEvent(a, e, cudaEventWaitExternal);
      on(a, add, x, y); });
    on(b, put, x), cudaEventRecord(e, b), cudaGraphLaunch(graph, a); }},
  {"graphs", "edge", "DataRace", [] { two_nodes((void *)put, (void *)add, safe); }},
  {"graphs", "programmatic-edge", "DataRace", [] {
    two_nodes((void *)trigger_put, safe ? (void *)wait_add : (void *)add, 2); }},
  {"dependent launches", "no-wait", "DataRace", [] { on(a, trigger_put, x), dependent(a, safe ? wait_add : add, x, y); }},
  {"dependent launches", "no-wait-and-no-trigger", "DataRace", [] {
    on(a, put, x), dependent(a, safe ? wait_add : add, x, y); }},
  {"dependent launches", "overwrites-what-is-read", "DataRace", [] {
    on(a, trigger_add, z, y), dependent(a, safe ? wait_put : put, z, 1.f); }},
  {"dependent launches", "trigger-before-wait", "DataRace", [] {
    on(a, trigger_put, x), dependent(a, safe ? wait_trigger_add : trigger_wait_add, x, z), dependent(a, add, x, y); }},
  {"dependent launches", "one-warp-waits", "DataRace", [] {
    on(a, trigger_put, x), dependent(a, safe ? one_warp_waits_for_all : one_warp_waits, x, y); }},
  {"dependent launches", "symbol-read-before-wait", "DataRace", [] {
    on(a, trigger_put_symbol, x), dependent(a, safe ? wait_add_symbol : add_symbol_then_wait, x, y); }},
  {"dependent launches", "captured", "DataRace", [] {
    cudaGraphLaunch(captured([] { on(a, trigger_put, x), dependent(a, safe ? wait_add : add, x, y); }), a); }},
  {"dependent launches", "event-of-a-trigger", "DataRace", [] {
    cudaEvent_t e = event();
    with_event(e, false), cudaStreamWaitEvent(b, e, 0), on(b, safe ? wait_add : add, x, y); }},
};

extern "C" const Pair *pair(int i) { return i < int(sizeof PAIRS / sizeof *PAIRS) ? PAIRS + i : nullptr; }
extern "C" void run(int i, int right) {
  safe = right;
  for (float **at : {&x, &y, &z}) cudaMalloc(at, BYTES), cudaMemset(*at, 0, BYTES);
  cudaMallocHost(&host, 4096);
  for (cudaStream_t *at : {&a, &b, &c}) cudaStreamCreateWithFlags(at, cudaStreamNonBlocking);
  cudaStreamCreate(&blocking);
  cudaDeviceSynchronize();
  PAIRS[i].run();
  cudaDeviceSynchronize();
}
int main(int count, char **given) {
  for (int i = 0; count == 3 && pair(i); ++i)
    if (!strcmp(pair(i)->name, given[1])) return run(i, !strcmp(given[2], "safe")), 0;
  for (int i = 0; pair(i); ++i) printf("%s: %s (%s)\n", pair(i)->name, pair(i)->kind, pair(i)->expected);
  return 2;
}

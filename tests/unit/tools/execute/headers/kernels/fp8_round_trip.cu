// fp8: e4m3 and e5m2 from float with saturation, and back.
#include <cuda_fp8.h>
extern "C" __global__ void fp8_round_trip(const float* x, float* e4m3, float* e5m2) {
    int i = threadIdx.x;
    e4m3[i] = float(__nv_fp8_e4m3(x[i]));
    __nv_fp8_e5m2 narrow(x[i]);
    e5m2[i] = static_cast<float>(narrow);
}

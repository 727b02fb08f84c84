__device__ float square(float v) { return v * v; }

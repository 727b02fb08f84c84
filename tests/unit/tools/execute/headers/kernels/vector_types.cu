// Vector types: loads, stores and members of 1 to 4 lanes for every element type, in structs and in shared memory.
template <class V, class T>
__device__ T fold2(V v) { return (T)(v.x + 2 * v.y); }
extern "C" __global__ void vector_types(const int* x, int* y, double* d, short* s, unsigned char* c, long long* w) {
    int t = threadIdx.x;
    __shared__ int4 room[32];
    int4 a = reinterpret_cast<const int4*>(x)[t];
    room[31 - t] = make_int4(a.w, a.z, a.y, a.x);
    __syncthreads();
    int4 b = room[t];
    reinterpret_cast<int4*>(y)[t] = b;
    uint3 u = make_uint3(1, 2, 3);
    float3 f = make_float3(a.x, a.y, a.z);
    reinterpret_cast<double2*>(d)[t] = make_double2(f.x + f.y * f.z, u.x + u.y + u.z);
    reinterpret_cast<short4*>(s)[t] = make_short4((short)a.x, (short)a.y, (short)a.z, (short)a.w);
    reinterpret_cast<uchar4*>(c)[t] = make_uchar4((unsigned char)a.x, (unsigned char)a.y, (unsigned char)a.z, 9);
    longlong2 l = make_longlong2((long long)a.x << 33, a.y);
    reinterpret_cast<longlong2*>(w)[t] = l;
    w[64 + t] = fold2<longlong2, long long>(l) + fold2<int2, long long>(make_int2(a.z, a.w));
}

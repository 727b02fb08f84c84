// Tensor maps through the driver API, found at run time: the program links the runtime library only.
namespace host {
inline CUtensorMap tensor_map(const Buffer& buffer, CUtensorMapDataType type, i64 item, std::vector<i64> shape,
                              std::vector<i64> box, CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2,
                              CUtensorMapFloatOOBfill oob) {
  typedef CUresult (*Encode)(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*, const cuuint64_t*,
                             const cuuint32_t*, const cuuint32_t*, CUtensorMapInterleave, CUtensorMapSwizzle,
                             CUtensorMapL2promotion, CUtensorMapFloatOOBfill);
  static void* found = nullptr;
  if (!found) {
    cudaDriverEntryPointQueryResult state = cudaDriverEntryPointSymbolNotFound;
#if CUDART_VERSION >= 12050
    check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000, cudaEnableDefault, &state), "looking for the driver's tensor maps");
#else
    check(cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &found, cudaEnableDefault, &state), "looking for the driver's tensor maps");
#endif
    if (state != cudaDriverEntryPointSuccess || !found) fail(1, "this driver has no tensor maps");
  }
  std::reverse(shape.begin(), shape.end());
  std::reverse(box.begin(), box.end());
  std::vector<cuuint64_t> sizes(shape.begin(), shape.end()), strides;
  std::vector<cuuint32_t> sides(box.begin(), box.end()), steps(box.size(), 1);
  i64 step = item;
  for (size_t k = 0; k + 1 < shape.size(); ++k) strides.push_back((cuuint64_t)(step = mul(step, shape[k])));
  alignas(64) CUtensorMap map;
  CUresult status = ((Encode)found)(&map, type, (cuuint32_t)sizes.size(), buffer.data, sizes.data(), strides.data(), sides.data(),
                                    steps.data(), CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, l2, oob);
  if (status != CUDA_SUCCESS) fail(1, "the tensor map of %s is refused by the driver (code %d)", buffer.name, (int)status);
  return map;
}
}  // namespace host

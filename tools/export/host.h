// What the host part of an exported program stands on: checked integers, checked CUDA calls, files.
namespace host {
typedef long long i64;

[[noreturn]] void fail(int code, const char* format, ...) {
  std::va_list list;
  va_start(list, format);
  std::fputs("error: ", stderr);
  std::vfprintf(stderr, format, list);
  std::fputc('\n', stderr);
  va_end(list);
  std::exit(code);
}

// Values stay strictly below 2^63 in magnitude, intermediate ones too.
inline i64 fits(bool overflow, i64 value) {
  if (overflow || value == std::numeric_limits<i64>::min()) fail(2, "a size does not fit in 63 bits");
  return value;
}
inline i64 add(i64 a, i64 b) { i64 r = 0; bool o = __builtin_add_overflow(a, b, &r); return fits(o, r); }
inline i64 sub(i64 a, i64 b) { i64 r = 0; bool o = __builtin_sub_overflow(a, b, &r); return fits(o, r); }
inline i64 mul(i64 a, i64 b) { i64 r = 0; bool o = __builtin_mul_overflow(a, b, &r); return fits(o, r); }
inline i64 floor_div(i64 a, i64 b) {
  if (b == 0) fail(2, "division by zero in a size");
  i64 q = a / b;
  return (a % b != 0 && (a < 0) != (b < 0)) ? q - 1 : q;
}
inline i64 floor_mod(i64 a, i64 b) {
  if (b == 0) fail(2, "modulo by zero in a size");
  i64 r = a % b;
  return (r != 0 && (r < 0) != (b < 0)) ? r + b : r;
}
inline i64 power(i64 a, i64 b) {
  if (b < 0) fail(2, "negative power in a size");
  i64 r = 1;
  if (a == 0 || a == 1 || a == -1) return b == 0 ? 1 : (a == -1 && b % 2 == 0 ? 1 : a);
  for (i64 k = 0; k < b; ++k) r = mul(r, a);
  return r;
}
inline i64 cdiv(i64 a, i64 b) {
  if (b <= 0) fail(2, "cdiv by %lld: the divisor must be positive", b);
  return sub(0, floor_div(sub(0, a), b));
}
inline i64 log2_ceil(i64 n) { i64 k = 0; while (k < 63 && (1ULL << k) < (n > 1 ? (unsigned long long)n : 1ULL)) ++k; return k; }
inline i64 pow2_ceil(i64 n) { i64 k = log2_ceil(n); return k < 63 ? 1LL << k : fits(true, 0); }
inline i64 counted(i64 n) {
  if (n < 0) fail(2, "a count is negative: %lld", n);
  return n;
}
inline i64 min_of(std::initializer_list<i64> v) { return std::min(v); }
inline i64 max_of(std::initializer_list<i64> v) { return std::max(v); }
template <class F> i64 chain(std::initializer_list<i64> v, F test) { return test(v.begin()) ? 1 : 0; }

// An integer as the type of a kernel's parameter; one that does not fit is refused, never wrapped.
template <class T> T to(i64 value, const char* what) {
  bool wrong = std::numeric_limits<T>::is_signed ? (i64)(T)value != value : value < 0 || (unsigned long long)(T)value != (unsigned long long)value;
  if (wrong) fail(2, "%s = %lld does not fit the kernel's parameter", what, value);
  return (T)value;
}

inline void check(cudaError_t status, const char* doing, const char* what = "") {
  if (status != cudaSuccess) fail(1, "%s while %s%s%s", cudaGetErrorString(status), doing, *what ? " " : "", what);
}

// Bits of the half types, rounded to nearest even, so that no device header is needed on the host.
inline unsigned short half_bits(double value) {
  unsigned short sign = std::signbit(value) ? 0x8000 : 0;
  double size = std::fabs(value);
  if (std::isnan(value)) return 0x7fff;
  if (size >= 65520.0) return sign | 0x7c00;
  int exponent = 0;
  std::frexp(size, &exponent);
  int step = std::max(exponent - 11, -24);
  double units = std::nearbyint(std::ldexp(size, -step));
  if (step == -24) return sign | (unsigned short)units;  // subnormal; its carry makes the least normal number
  return (unsigned short)(sign | (((step + 24) << 10) + (unsigned)units));
}
inline unsigned short bfloat16_bits(double value) {
  float single = (float)value;
  unsigned bits = 0;
  std::memcpy(&bits, &single, sizeof bits);
  if (std::isnan(value)) return 0x7fff;
  return (unsigned short)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

struct Buffer {
  const char* name;
  size_t bytes = 0;
  void* data = nullptr;
};

inline Buffer allocate(const char* name, i64 count, i64 item) {
  Buffer buffer{name, (size_t)mul(count, item), nullptr};
  if (count < 0) fail(2, "%s would have %lld elements", name, count);
  check(cudaMalloc(&buffer.data, std::max<size_t>(buffer.bytes, 256)), "allocating", name);
  return buffer;
}

inline std::vector<char> read_file(const std::string& path, size_t bytes) {
  std::FILE* file = std::fopen(path.c_str(), "rb");
  if (!file) fail(2, "cannot read %s: %s", path.c_str(), std::strerror(errno));
  std::vector<char> data(bytes + 1);
  size_t found = std::fread(data.data(), 1, bytes + 1, file);
  bool broken = std::ferror(file) != 0;
  std::fclose(file);
  if (broken) fail(2, "cannot read %s", path.c_str());
  if (found != bytes) fail(2, "%s has %s than %zu bytes, the size of its array", path.c_str(), found < bytes ? "less" : "more", bytes);
  data.resize(bytes);
  return data;
}

inline void write_file(const std::string& path, const std::vector<char>& data) {
  std::FILE* file = std::fopen(path.c_str(), "wb");
  if (!file) fail(2, "cannot write %s: %s", path.c_str(), std::strerror(errno));
  bool whole = std::fwrite(data.data(), 1, data.size(), file) == data.size();
  if (std::fclose(file) != 0 || !whole) fail(2, "cannot write all of %s", path.c_str());
}

inline void upload(const Buffer& buffer, const std::string& path) {
  std::vector<char> data = read_file(path, buffer.bytes);
  if (buffer.bytes) check(cudaMemcpy(buffer.data, data.data(), buffer.bytes, cudaMemcpyHostToDevice), "copying to the device");
}

inline void download(const Buffer& buffer, const std::string& path) {
  std::vector<char> data(buffer.bytes);
  if (buffer.bytes) check(cudaMemcpy(data.data(), buffer.data, buffer.bytes, cudaMemcpyDeviceToHost), "copying from the device");
  write_file(path, data);
}

inline void copy(const Buffer& to, const Buffer& from) {
  if (to.bytes != from.bytes) fail(2, "copy: %s has %zu bytes and %s has %zu", to.name, to.bytes, from.name, from.bytes);
  if (to.bytes) check(cudaMemcpyAsync(to.data, from.data, to.bytes, cudaMemcpyDeviceToDevice, 0), "copying a buffer");
}

inline bool is_set(const Buffer& flag, size_t item) {
  unsigned char bytes[8] = {0};
  if (flag.bytes < item) fail(2, "the flag %s has no element", flag.name);
  check(cudaMemcpy(bytes, flag.data, item, cudaMemcpyDeviceToHost), "reading a flag");
  for (size_t k = 0; k < item; ++k)
    if (bytes[k]) return true;
  return false;
}

inline const Buffer& pick(std::initializer_list<const Buffer*> of, i64 index) {
  if (index < 0 || index >= (i64)of.size()) fail(2, "pick index %lld is outside 0..%zu", index, of.size() - 1);
  return *of.begin()[index];
}

struct Shape {
  i64 x, y, z;
};

inline int device_number(cudaDeviceAttr what) {
  int device = 0, value = 0;
  check(cudaGetDevice(&device), "asking for the device");
  check(cudaDeviceGetAttribute(&value, what, device), "asking what the device can do");
  return value;
}

inline void allow_shared(const void* kernel, const char* name, i64 bytes) {
  if (bytes < 0 || bytes > 0x7fffffff) fail(2, "%s: %lld bytes of shared memory", name, bytes);
  // Beside static shared memory even a little can pass the default limit.
  if (bytes > 0) check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes), "raising the shared memory of", name);
}

inline i64 blocks_per_sm(const void* kernel, const char* name, Shape block, i64 shared) {
  int blocks = 0;
  allow_shared(kernel, name, shared);
  check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, (int)mul(mul(block.x, block.y), block.z), (size_t)shared), "asking for the occupancy of", name);
  return blocks;
}

inline void launch(const void* kernel, const char* name, Shape grid, Shape block, i64 shared, bool cooperative,
                   const Shape* cluster, void** args) {
  if (grid.x < 0 || grid.y < 0 || grid.z < 0) fail(2, "%s: a negative grid", name);
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
  allow_shared(kernel, name, shared);
  cudaLaunchAttribute attributes[2] = {};
  unsigned count = 0;
  if (cooperative) {
    attributes[count].id = cudaLaunchAttributeCooperative;
    attributes[count++].val.cooperative = 1;
  }
  if (cluster) {
    attributes[count].id = cudaLaunchAttributeClusterDimension;
    attributes[count].val.clusterDim.x = to<unsigned>(cluster->x, name);
    attributes[count].val.clusterDim.y = to<unsigned>(cluster->y, name);
    attributes[count++].val.clusterDim.z = to<unsigned>(cluster->z, name);
    if (cluster->x * cluster->y * cluster->z > 8)
      check(cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1), "allowing the clusters of", name);
  }
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(to<unsigned>(grid.x, name), to<unsigned>(grid.y, name), to<unsigned>(grid.z, name));
  config.blockDim = dim3(to<unsigned>(block.x, name), to<unsigned>(block.y, name), to<unsigned>(block.z, name));
  config.dynamicSmemBytes = (size_t)shared;
  config.attrs = attributes;
  config.numAttrs = count;
  check(cudaLaunchKernelExC(&config, kernel, args), "launching", name);
}

// --name value pairs; sizes and scalars are numbers, arrays are paths.
struct Arguments {
  std::vector<std::pair<std::string, std::string>> given;

  const std::string* find(const std::string& name) const {
    for (const auto& pair : given)
      if (pair.first == name) return &pair.second;
    return nullptr;
  }
  i64 integer(const char* name, i64 otherwise) const {
    const std::string* text = find(name);
    if (!text) return otherwise;
    char* end = nullptr;
    errno = 0;
    i64 value = std::strtoll(text->c_str(), &end, 10);
    if (errno || end == text->c_str() || *end) fail(2, "--%s takes an integer, not %s", name, text->c_str());
    return value;
  }
  double real(const char* name, double otherwise) const {
    const std::string* text = find(name);
    if (!text) return otherwise;
    char* end = nullptr;
    double value = std::strtod(text->c_str(), &end);
    if (end == text->c_str() || *end) fail(2, "--%s takes a number, not %s", name, text->c_str());
    return value;
  }
  std::string path(const char* name, const char* otherwise = nullptr) const {
    const std::string* text = find(name);
    if (text) return *text;
    if (otherwise) return otherwise;
    const std::string* folder = find("data-folder");
    return (folder ? *folder : std::string("data")) + "/" + name + ".bin";
  }
};

inline Arguments arguments(int argc, char** argv, std::initializer_list<const char*> known, const char* usage) {
  Arguments result;
  for (int k = 1; k < argc; ++k) {
    std::string name = argv[k];
    if (name == "--help" || name == "-h") {
      std::fputs(usage, stdout);
      std::exit(0);
    }
    bool found = false;
    for (const char* one : known) found = found || name == std::string("--") + one;
    if (!found || k + 1 >= argc) fail(2, "%s %s\n%s", name.c_str(), found ? "needs a value" : "is not known", usage);
    result.given.emplace_back(name.substr(2), argv[++k]);
  }
  return result;
}
}  // namespace host

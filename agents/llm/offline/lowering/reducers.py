"""How each reduction starts, takes a term, merges two partial results and ends."""

from dataclasses import dataclass

from cuda_harness.agents.llm.offline.lowering.emit import C_REAL

_FIRST = {
    ("max", "float32"): "-INFINITY", ("max", "float64"): "-INFINITY", ("max", "int64"): "(-9223372036854775807LL - 1)",
    ("min", "float32"): "INFINITY", ("min", "float64"): "INFINITY", ("min", "int64"): "9223372036854775807LL",
}  # fmt: skip
NO_INDEX = "9223372036854775807LL"


@dataclass(frozen=True)
class Reduction:
    """One reducer for one type of computation."""

    kind: str
    dtype: str

    @property
    def real(self) -> str:
        """C type of the value."""
        return C_REAL[self.dtype]

    @property
    def is_arg(self) -> bool:
        """Whether the result is an index."""
        return self.kind in {"argmax", "argmin"}

    @property
    def op(self) -> str:
        """Name of the merging helper: sum, prod, max, min."""
        return {"mean": "sum", "argmax": "max", "argmin": "min"}.get(self.kind, self.kind)

    @property
    def first(self) -> str:
        """The value that changes nothing."""
        if self.op == "sum":
            return f"{self.real}(0)"
        if self.op == "prod":
            return f"{self.real}(1)"
        return f"{self.real}({_FIRST[self.op, self.dtype]})"

    def merge(self, a: str, b: str) -> str:
        """Return the C expression of two partial values as one."""
        suffix = "f" if self.dtype == "float32" else ""
        match self.op:
            case "sum":
                return f"{a} + {b}"
            case "prod":
                return f"{a} * {b}"
            case _ if self.dtype == "int64":
                return f"({b} {'>' if self.op == 'max' else '<'} {a} ? {b} : {a})"
            case _:
                return f"f{self.op}{suffix}({a}, {b})"

    def better(self, value: str, at: str, than: str, than_at: str) -> str:
        """Return the condition that (value, at) wins over (than, than_at); the lowest index wins a tie."""
        sign = ">" if self.op == "max" else "<"
        return f"{value} {sign} {than} || ({value} == {than} && {at} < {than_at})"

    def finish(self, value: str, count: str) -> str:
        """Return the result of the reduction over `count` terms."""
        return f"({value} / {self.real}({count}))" if self.kind == "mean" else value


def group_helper(reduction: Reduction) -> tuple[str, str]:
    """Return name and text of the device function that merges one value a thread over a warp or a block.

    All threads of the group get the result, always merged in the same order.
    """
    real, name = reduction.real, f"group_{reduction.kind if reduction.is_arg else reduction.op}"
    if reduction.is_arg:
        take = f"if ({reduction.better('value_b', 'at_b', 'value', 'at')}) {{ value = value_b; at = at_b; }}"
        body = f"""template <int THREADS> __device__ int64_t {name}({real} value, int64_t at) {{
  for (int d = 16; d > 0; d >>= 1) {{
    const {real} value_b = __shfl_xor_sync(0xffffffffu, value, d);
    const int64_t at_b = __shfl_xor_sync(0xffffffffu, (long long)at, d);
    {take}
  }}
  if (THREADS > 32) {{
    __shared__ {real} values[32];
    __shared__ int64_t places[32];
    __syncthreads();  // the arrays may still be read from the last call
    if (threadIdx.x % 32 == 0) {{ values[threadIdx.x / 32] = value; places[threadIdx.x / 32] = at; }}
    __syncthreads();
    value = values[0];
    at = places[0];
    for (int w = 1; w < THREADS / 32; ++w) {{
      const {real} value_b = values[w];
      const int64_t at_b = places[w];
      {take}
    }}
  }}
  return at;
}}"""
        return name, body
    shuffled = "__shfl_xor_sync(0xffffffffu, value, d)"
    if reduction.dtype == "int64":
        shuffled = "(int64_t)__shfl_xor_sync(0xffffffffu, (long long)value, d)"
    body = f"""template <int THREADS> __device__ {real} {name}({real} value) {{
  for (int d = 16; d > 0; d >>= 1) {{
    const {real} other = {shuffled};
    value = {reduction.merge("value", "other")};
  }}
  if (THREADS > 32) {{
    __shared__ {real} values[32];
    __syncthreads();  // the array may still be read from the last call
    if (threadIdx.x % 32 == 0) values[threadIdx.x / 32] = value;
    __syncthreads();
    value = values[0];
    for (int w = 1; w < THREADS / 32; ++w) value = {reduction.merge("value", "values[w]")};
  }}
  return value;
}}"""
    return name, body

"""Which cases a suite asks: sizes and regimes by stage, each case with a seed of its own."""

import json
import zlib
from collections.abc import Iterable, Sequence

from cuda_harness.state.ir import KernelIR
from cuda_harness.state.results import StageName
from cuda_harness.state.suite import Case, Inputs
from cuda_harness.tools.synthesize.inputs import scalars_of
from cuda_harness.tools.synthesize.regimes import in_quorum, regimes_of
from cuda_harness.tools.synthesize.shapes import Sizes, long_sizes, longest_sums, shapes, uneven, work

TINY_WORK = 60_000
SHAPES_WORK = 3_000_000
VALUES_WORK = 200_000
LONG_WORK = 40_000_000
_TELLING = ("outlier", "peaks")
"""Regimes that find elements left out of a long sum."""
_QUORUM_WORK = 12_000
_QUORUM_CASES = 40


class CasePlan:
    """The cases of one IR under one secret seed; the same ones each time they are asked for."""

    def __init__(self, ir: KernelIR, specs: Inputs, seed: int) -> None:
        """Take what decides.

        Args:
            ir: Dims, their rules, and which inputs are open.
            specs: Domains of inputs.
            seed: Secret of the run.
        """
        self.ir, self.seed = ir, seed
        self.regimes = regimes_of(ir, specs)

    def cases(
        self, stage: StageName, *, tunables: Iterable[int] = (), target: Sizes | None = None
    ) -> tuple[Case, ...]:
        """Return the cases of a stage; `target` replaces the target sizes where they must be scaled."""
        tunables = sorted({n for n in tunables if 1 < n <= 4096})
        match stage:
            case "tiny":
                return self._tiny(tunables)
            case "shapes":
                sizes = shapes(
                    self.ir, [*tunables, 32, 1024], count=14, budget=SHAPES_WORK, seed=self.seed + 1
                )
                longer = [s for s in long_sizes(self.ir, budget=LONG_WORK) if s not in sizes]
                return tuple(self.case(stage, s, "normal") for s in [*sizes, *longer])
            case "values":
                return self._values(tunables)
            case "target":
                return (self.case(stage, target or self.ir.target_dims, "normal"),)
            case _:
                return self._again(stage, tunables)

    def _tiny(self, tunables: Sequence[int]) -> tuple[Case, ...]:
        sizes = shapes(self.ir, [*tunables, 32], count=6, budget=6 * TINY_WORK, seed=self.seed, largest=700)
        regimes = self.regimes[:1] + ("ties",) * ("ties" in self.regimes)
        return tuple(self.case("tiny", s, regimes[i % len(regimes)]) for i, s in enumerate(sizes))

    def _values(self, tunables: Sequence[int]) -> tuple[Case, ...]:
        found = shapes(self.ir, tunables, count=8, budget=8 * VALUES_WORK, seed=self.seed + 2, largest=300)
        usable = [s for s in found if 0 not in s.values() and work(self.ir, s) <= VALUES_WORK] or found[:1]
        sizes = [usable[len(usable) // 2], usable[-1]] if len(usable) > 1 else usable
        odd = [s for s in usable[len(usable) // 2 :] if uneven(s)]
        if (
            odd and len(sizes) > 1 and not any(map(uneven, sizes))
        ):  # padding and tails are among what values show
            sizes[0] = odd[-1]
        reach = [s for s in [longest_sums(self.ir, usable)] if s not in sizes]
        telling = [r for r in _TELLING if r in self.regimes]
        return (
            *(self.case("values", s, r) for r in self.regimes for s in sizes),
            *(self.case("values", s, r) for r in telling for s in reach),
        )

    def _again(self, stage: StageName, tunables: Sequence[int]) -> tuple[Case, ...]:
        found = shapes(self.ir, tunables, count=6, budget=4 * VALUES_WORK, seed=self.seed + 3, largest=500)
        usable = [s for s in found if 0 not in s.values()] or found
        regimes = ("normal", "normal", self.regimes[1 % len(self.regimes)])
        return tuple(self.case(stage, usable[-1], r, salt=i) for i, r in enumerate(regimes))

    def further(self, number: int) -> list[Case]:
        """Return cases of other data and sizes for a suite that is too weak; `number` counts the attempts from 1."""
        found = shapes(
            self.ir, (), count=6, budget=12 * VALUES_WORK, seed=self.seed + 100 * number, largest=600 * number
        )
        usable = [s for s in found if 0 not in s.values()][-3:] or found[:1]
        return [self.case("values", s, r, salt=10 * number) for r in self.regimes for s in usable]

    def bases(self) -> list[Case]:
        """Return the cases whose inputs metamorphic properties change; one for each size of stage `values`."""
        sizes = [c.dims for c in self._values(())]
        unique = [s for i, s in enumerate(sizes) if s not in sizes[:i]][:2]
        return [self.case("values", s, "grid").model_copy(update={"change": "base"}) for s in unique]

    def quorum(self) -> list[Case]:
        """Return tiny cases over all regimes, the smallest first; those without elements under one."""
        tiny = shapes(self.ir, (), count=5, budget=30_000, seed=self.seed + 4, largest=24, each=_QUORUM_WORK)
        small = [s for s in tiny if work(self.ir, s) <= _QUORUM_WORK] or tiny[:1]
        empty = [self.case("tiny", s, self.regimes[0], salt=7) for s in small if 0 in s.values()]
        full = [s for s in small if 0 not in s.values()]
        regimes = in_quorum(self.regimes) if work(self.ir, small[0]) <= _QUORUM_WORK else ("normal",)
        cases = sorted(
            (self.case("tiny", s, r, salt=7) for s in full for r in regimes),
            key=lambda c: work(self.ir, c.dims),
        )
        return [*empty, *cases][:_QUORUM_CASES]

    def case(self, stage: StageName, sizes: Sizes, regime: str, *, salt: int = 0) -> Case:
        """Return one case; its seed and its scalars follow from all that names it."""
        text = f"{stage}|{json.dumps(sizes, sort_keys=True)}|{regime}|{salt}"
        seed = (self.seed * 0x9E3779B1 + zlib.crc32(text.encode())) % (1 << 62)
        shape = "x".join(str(sizes[d.name]) for d in self.ir.dims) or "one"
        name = f"{stage}-{shape}-{regime}" + (f"-{salt}" if salt else "")
        scalars = scalars_of(self.ir, name, seed)
        return Case(id=name, stage=stage, dims=sizes, scalars=scalars, regime=regime, seed=seed)

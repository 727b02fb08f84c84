"""Sizes that find mistakes: one, primes, around powers of two and tunables, tails, non-square, zero, the target."""

from collections.abc import Callable, Iterable, Mapping

import numpy as np

from cuda_harness.state.expr import Expr, ExprError
from cuda_harness.state.ir import Dim, KernelIR

Sizes = dict[str, int]
_LONG = 1_000
_SEARCHES = 32
_ZEROS = 2
"""Sets of sizes with a zero that count as others do; each further dim has one of its own."""
_PRIMES = ((17, 37, 5, 31, 13, 61, 7), (7, 3, 5, 2, 13, 3, 5), (3, 2, 5, 2, 3, 2, 3))
"""Sizes of the dims in turn: apart, so that two dims taken for one another show."""
_FAR = 3
_SHARE = 6
"""The part of a budget that one set of sizes may take which was made smaller."""


def elements(ir: KernelIR, dims: Mapping[str, int]) -> int:
    """Return elements of all tensors at these sizes; a huge number when a shape has no value."""
    total = 0
    try:
        for tensor in ir.tensors:
            count = 1
            for size in tensor.dims(dims):
                if size < 0:
                    return 1 << 60
                count *= size
            total += count
    except ExprError:
        return 1 << 60
    return total


def work(ir: KernelIR, dims: Mapping[str, int]) -> int:
    """Return an estimate of operations: the larger of the IR's cost and all elements."""
    try:
        flops = ir.cost.flops.evaluate(dims)
    except ExprError:
        flops = 0
    return max(flops, elements(ir, dims))


def admitted(ir: KernelIR, dims: Mapping[str, int]) -> bool:
    """Return whether a kernel must be right here: rules and constraints hold, no shape is negative."""
    try:
        return ir.admits(dims) and elements(ir, dims) < 1 << 60
    except ExprError:
        return False


def candidates(dim: Dim, interesting: Iterable[int], *, most: int) -> list[int]:
    """Return sizes of one dim worth trying, admitted by its own rules, smallest first."""
    wanted = {
        dim.min,
        dim.min + 1,
        1,
        2,
        3,
        5,
        7,
        13,
        17,
        31,
        32,
        33,
        37,
        61,
        64,
        65,
        97,
        127,
        128,
        129,
        131,
        257,
    }
    for n in interesting:
        wanted |= {n - 1, n, n + 1, 2 * n + 3}
    if dim.min == 0:
        wanted.add(0)
    step = dim.multiple_of
    rounded = {n // step * step for n in wanted} | {step, 2 * step, 3 * step, 5 * step}
    if dim.power_of_two:
        rounded |= {1 << k for k in range(14)}
    if dim.max is not None and dim.max <= most:
        rounded.add(dim.max)
    found = sorted(n for n in rounded if n <= most and dim.admits(n))
    return found or [dim.value]


def around(dim: Dim, marks: Iterable[int], *, most: int) -> list[int]:
    """Return sizes at, beside and at small multiples of the marks, admitted by the dim's own rules; never empty."""
    wanted = {size for n in marks for size in (n, n + 1, 2 * n, 2 * n + 3, 3 * n + 1, 4 * n)}
    step = dim.multiple_of
    rounded = {-(-n // step) * step for n in wanted}
    if dim.power_of_two:
        rounded |= {1 << (n - 1).bit_length() for n in wanted}
    found = sorted(n for n in rounded if 0 < n <= most and dim.admits(n))
    return found or [dim.value]


def shapes(
    ir: KernelIR, tunables: Iterable[int], *, count: int, budget: int, seed: int, largest: int = 1 << 16,
    each: int | None = None,
) -> list[Sizes]:  # fmt: skip
    """Return up to `count` sets of sizes whose total work stays within `budget`, the smallest first.

    No set takes more than `each`, where that is said.

    Covers: every dim at its least, at odd primes with the others apart (never square where it can be avoided),
    around tunables and powers of two, and each dim at zero where it is allowed. Sizes beyond the budget, as products of
    many dims are, are taken smaller. Never empty for a satisfiable IR: the target itself satisfies its rules.
    """
    if not ir.dims:
        return [{}]
    tunables, each = tuple(tunables), each or budget
    lists = {d.name: candidates(d, tunables, most=largest) for d in ir.dims}
    rng = np.random.default_rng(np.random.SeedSequence([seed, 77]))
    wanted: list[Sizes] = [{n: lists[n][0] for n in lists}]
    names = list(lists)
    primes, odd = _apart(ir, lists, each)
    most = 70 if primes is _PRIMES[0] else max(primes[:3])
    small = {n: [s for s in lists[n] if 0 < s <= most] or lists[n][:3] for n in lists}
    even = {
        n: _nearest([s for s in lists[n] if s % 2 == 0] or lists[n], _PRIMES[0][i % 7] - 1)
        for i, n in enumerate(names)
    }
    wanted += [odd, even]
    if len(names) > 1:
        wanted.append({n: _nearest(lists[n], primes[(i + 3) % 7]) for i, n in enumerate(names)})
    crossing = _crossing(lists, tunables)
    if largest > _LONG:
        crossing += [s for s in _long(lists) if s not in crossing]
    for name in names:  # one dim sweeps, the others stay small and apart
        for size in lists[name]:
            if size > 1 or size == 0:
                others = {n: small[n][int(rng.integers(len(small[n])))] for n in names if n != name}
                wanted.append({**others, name: size})
        wanted.append({**odd, name: lists[name][-1]})
    for _ in range(4 * count):
        wanted.append({n: lists[n][int(rng.integers(len(lists[n])))] for n in names})
    if ir.constraints:
        wanted += _search(ir, lists, rng, most=largest)
    target = ir.target_dims
    # A target beyond `largest` is for the stage that is meant for it, however little it costs.
    at_target = (
        [target] if all(target[n] <= largest or target[n] in sizes for n, sizes in lists.items()) else []
    )
    wanted += at_target
    wanted = [
        {n: w[n] for n in names} for w in wanted
    ]  # in the order of the IR, so that equal sizes look equal
    chosen: list[Sizes] = []
    first = 3 + (len(names) > 1)
    head, rest = wanted[:first], wanted[first:]
    order = rng.permutation(len(rest))
    # Sizes with a zero cost nothing: drawn at random, they would leave no room for others where dims are many.
    zero = [s for n in names if 0 in lists[n] and admitted(ir, s := {**odd, n: 0})]
    spent = 0
    count += len(crossing) + max(0, len(zero) - _ZEROS)
    drawn = (rest[i] for i in order if 0 not in rest[i].values())
    for given in [*head, *zero, *crossing, *drawn, *at_target]:
        sizes = given if work(ir, given) <= each else _smaller(ir, lists, given, min(each, budget // _SHARE))
        cost = work(ir, sizes)
        if sizes in chosen or not admitted(ir, sizes) or spent + cost > budget:
            continue
        chosen.append(sizes)
        spent += cost
        if len(chosen) >= count:
            break
    if not chosen:
        possible = [w for w in (*wanted, target) if admitted(ir, w)]
        chosen = [min(possible, key=lambda w: work(ir, w))] if possible else [target]
    return sorted(chosen, key=lambda w: work(ir, w))


def _apart(ir: KernelIR, lists: Mapping[str, list[int]], limit: int) -> tuple[tuple[int, ...], Sizes]:
    """Return primes for the dims, smaller ones where a product of many dims leaves no room, and the sizes they make."""
    odd: Sizes = {}
    for primes in _PRIMES:
        odd = {n: _nearest(lists[n], primes[i % 7]) for i, n in enumerate(lists)}
        if work(ir, odd) <= limit:
            return primes, odd
    return _PRIMES[-1], odd


def _smaller(ir: KernelIR, lists: Mapping[str, list[int]], sizes: Sizes, limit: int) -> Sizes:
    """Return sizes of at most so much work: the largest goes down in its list, one far beyond the others at last.

    It passes over what another dim has, where it can.
    """
    found = dict(sizes)
    while work(ir, found) > limit:
        below = {n: [s for s in lists[n] if 0 < s < found[n]] for n in found}
        ranked = sorted((n for n in found if below[n]), key=lambda n: -found[n])
        if not ranked:
            break
        far = len(ranked) > 1 and found[ranked[0]] > _FAR * found[ranked[1]]
        name = ranked[1 if far else 0]
        apart = [s for s in below[name] if s not in found.values()]
        found[name] = (apart or below[name])[-1]
    return found


def _nearest(sizes: list[int], wanted: int) -> int:
    return min(sizes, key=lambda size: (size == 0, abs(size - wanted)))


def _crossing(lists: Mapping[str, list[int]], tunables: Iterable[int]) -> list[Sizes]:
    """Return sizes with one dim just beyond the largest tunable that it can pass, so that a second block exists."""

    def beyond(sizes: list[int]) -> int:
        passed = [next((s for s in sizes if s > t), 0) for t in sorted(tunables, reverse=True)]
        return next((s for s in passed if s), 0)

    return _one_large(lists, beyond)


def _long(lists: Mapping[str, list[int]]) -> list[Sizes]:
    """Return, for each dim, sizes with it beyond a thousand and the others few: a table, a pad or a band may end before."""
    return _one_large(lists, lambda sizes: next((s for s in sizes if s >= _LONG), 0))


def _one_large(lists: Mapping[str, list[int]], large: Callable[[list[int]], int]) -> list[Sizes]:
    """Return, for each dim that has one, sizes with it at its `large` size (0: none) and the others few."""
    few = {n: next((s for s in sizes if s >= 3), sizes[-1]) for n, sizes in lists.items()}
    return [{**few, name: size} for name, sizes in lists.items() if (size := large(sizes))]


def long_sizes(ir: KernelIR, *, budget: int) -> list[Sizes]:
    """Return, for each dim, sizes with it beyond 16 bits (or 15, where 16 cost too much) and the others small.

    There an index held in 16 bits overflows, and so does the second axis of a grid; `budget` is of work, for each.
    Dims that are summed over, as a reduction length or an output without them tells, are left out: there the order
    of the additions would be judged, not the index.
    """
    summed = _summed(ir)
    few = {d.name: _nearest(candidates(d, (), most=64), 5) for d in ir.dims}
    found = []
    for dim in ir.dims:
        for beyond in (1 << 16, 1 << 15) if dim.name not in summed else ():
            size = -(-(beyond + 3) // dim.multiple_of) * dim.multiple_of
            sizes = {**few, dim.name: 2 * beyond if dim.power_of_two else size}
            if admitted(ir, sizes) and work(ir, sizes) <= budget:
                found.append(sizes)
                break
    return found


def uneven(sizes: Sizes) -> bool:
    """Return whether there are sizes above eight, all odd or twice an odd number: no vector divides them."""
    large = [n for n in sizes.values() if n > 8]
    return bool(large) and all(n % 4 for n in large)


def longest_sums(ir: KernelIR, sizes: list[Sizes]) -> Sizes:
    """Return the sizes whose dims that are summed over are largest: a wrong stride there leaves elements out."""
    summed = _summed(ir)
    return max(sizes, key=lambda s: sum(n for name, n in s.items() if name in summed))


def _summed(ir: KernelIR) -> set[str]:
    """Return the dims of reduction lengths, and those that an output's shape does not name."""
    found: set[str] = set()
    for tensor in ir.outputs:
        found |= {d.name for d in ir.dims} - {n for size in tensor.shape for n in size.names}
        if tensor.compare is not None and tensor.compare.reduction_length is not None:
            found |= tensor.compare.reduction_length.names
    return found


def _search(
    ir: KernelIR, lists: Mapping[str, list[int]], rng: np.random.Generator, *, most: int
) -> list[Sizes]:
    """Return sizes that satisfy constraints which independent picks rarely meet (`q == 3 * kv`).

    Backtracking over the dims in random order, a constraint being tested as soon as all its dims have a size; sizes
    of the lists come first, then every size up to a bound.
    """
    found: list[Sizes] = []
    dims = {d.name: d for d in ir.dims}
    everything = {
        n: [s for s in range(min(most, 512) + 1) if s not in set(lists[n]) and d.admits(s)]
        for n, d in dims.items()
    }
    for _ in range(_SEARCHES):
        order = [list(dims)[i] for i in rng.permutation(len(dims))]
        budget = [2_000]
        domains = {n: [*rng.permutation(lists[n]), *rng.permutation(everything[n])] for n in order}
        sizes = _extend(ir, order, domains, {}, budget)
        if sizes is not None and sizes not in found:
            found.append(sizes)
    return found


def _extend(
    ir: KernelIR, order: list[str], domains: Mapping[str, list[int]], chosen: Sizes, budget: list[int]
) -> Sizes | None:
    """Return the first admitted completion of `chosen`, `None` when there is none or the budget of tests is spent."""
    if not order:
        return chosen if admitted(ir, chosen) else None
    name, *later = order
    for size in domains[name]:
        if budget[0] <= 0:
            return None
        budget[0] -= 1
        sizes = {**chosen, name: int(size)}
        if all(_holds(c, sizes) for c in ir.constraints if name in c.names):
            done = _extend(ir, later, domains, sizes, budget)
            if done is not None:
                return done
    return None


def _holds(constraint: Expr, sizes: Mapping[str, int]) -> bool:
    """Return whether a constraint holds, or cannot be told yet."""
    if not constraint.names <= set(sizes):
        return True
    try:
        return bool(constraint.evaluate(sizes))
    except ExprError:
        return False


def scaled_target(ir: KernelIR, budget: int) -> Sizes:
    """Return the target sizes, reduced evenly until the work fits `budget`; fixed dims stay.

    Halves the largest free dim that still admits it, again and again, keeping `multiple_of`.
    """
    sizes = ir.target_dims
    stuck: set[str] = set()
    while work(ir, sizes) > budget:
        free = [
            d
            for d in ir.dims
            if not d.fixed and d.name not in stuck and sizes[d.name] > max(d.min, d.multiple_of, 1)
        ]
        if not free:
            return sizes
        dim = max(free, key=lambda d: sizes[d.name])
        half = sizes[dim.name] // 2
        half = (
            1 << (half.bit_length() - 1)
            if dim.power_of_two and half
            else half // dim.multiple_of * dim.multiple_of
        )
        changed = {**sizes, dim.name: max(half, dim.min, 1)}
        if changed[dim.name] >= sizes[dim.name] or not admitted(ir, changed):
            stuck.add(dim.name)
            continue
        sizes = changed
    return sizes

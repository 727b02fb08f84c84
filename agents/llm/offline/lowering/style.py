"""The optimisation ideas that a kernel is lowered with: read from a branch's prompt, kept in the plan's notes."""

import re
from dataclasses import dataclass, replace

_KNOWN: tuple[tuple[str, str], ...] = (
    ("tensor_cores", r"tensor core|\bwmma\b|\bmma\b"),
    ("double_buffering", r"double.?buffer|prefetch|asynchronous cop|software pipelin"),
    ("register_blocking", r"register.?block|register til|block of outputs|micro.?tile"),
    ("split_k", r"split.?k\b|split the inner"),
    ("online_one_pass", r"one.?pass|single.?pass|online|welford|rows? (?:\w+ )?in registers|registers? (?:hold|keep)"),
    ("warp_shuffle_reduction", r"shuffle|warp.?(?:level )?reduc|one warp (?:per|a) row"),
    ("lookback_scan", r"look.?back|scan in one pass|prefix from its predecessors"),
    ("two_stage_reduction", r"two.?stage|last.?block|parts"),
    ("transposing_through_shared", r"transpos\w* through|larger tiles?|rows per thread"),
    ("bank_conflict_padding", r"bank.?conflict|padd|swizzl"),
    ("kernel_fusion", r"fus(?:e|ion)|join launches"),
    ("launch_bounds", r"launch.?bounds|occupancy|registers? (?:per thread|fit)|spill"),
    ("persistent_grid", r"persistent|as many blocks as fit|num_sms|grid.?stride"),
    ("vector_loads", r"vector|float4|16.?bytes?|128.?bit|wide (?:loads?|access)|packs?\b"),
    ("instruction_parallelism", r"instruction|\bilp\b|several (?:independent )?(?:elements|items)|unroll|in flight|independent elements"),
    ("shared_tiling", r"shared.?(?:memory )?til|stage tiles|tile"),
    ("coalescing", r"coalesc|neighbouring addresses"),
)  # fmt: skip
IDEAS = tuple(name for name, _ in _KNOWN)
"""Every idea that some skill can take up, by the names that strategies have."""

MEANING: dict[str, tuple[str, str]] = {
    "tensor_cores": ("multiply by warp-wide matrix instructions with float accumulators", "matrix pipe use rises"),
    "online_one_pass": ("keep each row in registers and read it from memory once", "global loads fall to one pass"),
    "register_blocking": ("let each thread compute a block of outputs from registers", "shared loads for each operation fall"),
    "transposing_through_shared": ("turn larger tiles, all loads of a thread before its first store", "bytes in flight rise"),
    "lookback_scan": ("scan segments in blocks of their own, each from the total of those before it", "blocks in flight rise"),
    "vector_loads": ("move 16 bytes a thread and access, with a path for tails", "memory instructions fall to a quarter"),
    "two_stage_reduction": ("let the block that finishes last merge the parts, in one launch", "launches fall, bytes in flight rise"),
    "instruction_parallelism": ("let each thread handle several packs, all loaded first", "bytes in flight rise"),
    "persistent_grid": ("launch as many blocks as fit and let each stride over the work", "launch and tail overhead fall"),
    "launch_bounds": ("give launch bounds, so that the compiler knows the block", "registers fall, occupancy rises"),
}  # fmt: skip
"""Ideas that the templates propose by themselves: what to change, and what should move; the most promising first."""
CANONICAL = (*MEANING, *(name for name in IDEAS if name not in MEANING))
"""Every idea; of two that come to the same kernel the earlier one stands for both."""
_NOTE = re.compile(r"\bideas: (?P<names>[a-z_, ]+)")


@dataclass(frozen=True)
class Style:
    """The ideas a lowering takes up; none: the plain first kernel."""

    ideas: frozenset[str] = frozenset()

    def has(self, *names: str) -> bool:
        """Return whether any of the ideas is taken up."""
        return bool(self.ideas & set(names))

    def with_idea(self, name: str) -> "Style":
        """Return the style with one more idea."""
        return replace(self, ideas=self.ideas | {name})

    @property
    def note(self) -> str:
        """The plan's note, from which `style_of` reads the style back."""
        return f"ideas: {', '.join(sorted(self.ideas))}"


def style_of(notes: str) -> Style:
    """Return the style that a plan's notes name; unknown names are passed over."""
    match = _NOTE.search(notes)
    if match is None:
        return Style()
    return Style(frozenset(n.strip() for n in match["names"].split(",")) & frozenset(IDEAS))


def read_idea(text: str) -> str:
    """Return the name of the idea that a prompt asks for: the strategy before the colon, else by its words; may be empty."""
    head = text.split(":", 1)[0].strip().lower()
    if head in IDEAS:
        return head
    return next((name for name, pattern in _KNOWN if re.search(pattern, text, re.IGNORECASE)), "")

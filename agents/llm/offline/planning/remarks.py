"""Long requests made shorter: names of arrays, and sentences that only say how the kernel should behave, are taken out.

A sentence is a remark when it speaks of the implementation (`ensure ...`, `the kernel must handle ...`) and every word
of it is one that implementations are described with. A condition on the data never is one: its words are not in the list.
"""

import re

_PLAIN = """
a about above accesses access accesses according accordingly accumulate accumulated accumulates accuracy accurate accurately achieve across
adhere all allocated an and any appropriate appropriately are array arrays assume assumed at atomic atomically atomics avoid avoiding avoids
bandwidth based be been being between block blocks both boundaries boundary bounds bound by calculation calculations can care check checks
coalesced collaborate completely computation computations compute computed computes computing concurrent concurrently condition conditions
consistent contain contains contiguous coordinates correct correctly correctness correspond correspondence corresponding corruption cover
covering covers cross cuda data degenerate dependencies dependency dependent depends designed device different dimension dimensions direct directly
distributed do does during each edge edges efficient efficiency efficiently element elements ensure ensured ensures ensuring entire entirely entries
every exact exactly exceed execute executed execution fast fixed float float32 floating for format from full fully function given global gpu
grid grids guarantee handle handled handles handling high identical implementation implemented implementing in independent independently
index indexing indices individual input inputs integrity invalid is it its just kernel kernels large launch layout length loads loop loss
maintain maintained maintaining major managed manner match matches matching matrices matrix maximize maximum memory method minimal must
necessary no not numerical numerically of on only operate operates operation operations optimal optimize optimized or order other out output outputs over
parallel parallelism parallelized per perform performance performed performs point position positions precise precision preserve preserved preserves preserving
process processed processes processing produce produced produces program proper properly provided race reads reduction reductions relationship reliable
represent represented requirement requirements respect respective respects result resulting results row rows run safe safely same sequential set
shape shapes shared should shuffle simultaneously single size sizes solely some specific specification specifications specified stable stability standard storage
store stored stores strategy strict strictly support supports sync synchronization synchronized synchronously synchronize synchronizing take takes tensor tensors that the their them then there these they this
thread threads through to tolerance total type types unique unmodified use used uses using utilize utilized utilizes valid value values variable vector
vectors via warp warps was where whether while with within without work write writes writing written yield yields you bit columns column
operand operands shall will follow following structure structured hardware modern architecture scale entire throughout
""".split()  # noqa: SIM905 - a list of a few hundred words reads better as text
_WORDS = frozenset(_PLAIN)
_REMARK = re.compile(
    r"\b(?:ensur\w+|must|should|shall|guarantee\w*|respect\w*|avoid\w*|maintain\w*|handl\w+|synchroni\w+|race conditions?|shared memory|threads?|blocks?"
    r"|independently|in parallel|efficien\w+|correctness|accura\w+|out of bounds?|performance|coalesced|atomic\w*|boundary checks?)\b",
    re.IGNORECASE,
)
_CLAUSE = re.compile(
    r"(?:,|;| and)? *\b(?:ensuring|while (?:ensuring|maintaining|avoiding)|making sure|so that (?:no|all|every)|without (?:any )?(?:data loss|race conditions|synchronization|shared|using|atomic|out)|with no cross)\b[^.;]*",
    re.IGNORECASE,
)
_KEPT = re.compile(
    r"\b(?:float\d*|fp\d+|bf\w+|int\d*|uint\d*|double|half|shapes?|scalar|columns?|rows?|axis|inclusive|exclusive|mean|average|sum|index of|values? of)\b",
    re.IGNORECASE,
)
"""Words that carry a part of the task even in a sentence about the implementation: such a sentence stays."""
_NAME = re.compile(
    r"(?<![\w.])(?:"
    r"[a-z]{2,12}(?P<camel>[A-Z])(?:_?(?:in|out|input|output|cuda|gpu|host|cpu|data))?"
    r"|[a-z]\w*?_(?:in|out|input|output|cuda|gpu|vec|vector|mat|matrix|arr|array|tensor)(?:_(?P<snake>[a-z]|\d))?"
    r"|(?:in|out|input|output|vec|vector|mat|matrix|arr|array|tensor|d|h)_(?P<last>[a-z]|\d)"
    r")(?![\w(\[])"
)
_SENTENCE = re.compile(r"(?<=[.!?;])\s+(?=[A-Z(\"'])")


def without_names(text: str) -> str:
    """Return the text with names such as `matA`, `dot_input_b` and `x_out` as the letter that tells them apart, or gone."""

    def put(match: re.Match[str]) -> str:
        letter = (match["camel"] or match["snake"] or match["last"] or "").lower()
        return f" {letter} " if letter.isalpha() else " "

    return _NAME.sub(put, text)


def without_remarks(text: str) -> str:
    """Return the text without sentences and clauses that only describe the implementation; the first sentence stays."""
    sentences = _SENTENCE.split(text)
    kept = [sentences[0], *(s for s in sentences[1:] if not is_remark(s))]
    return " ".join(_CLAUSE.sub(_clause, s) for s in kept)


def is_remark(sentence: str) -> bool:
    """Return whether a sentence speaks of the implementation alone."""
    return _REMARK.search(sentence) is not None and _is_plain(sentence)


def _clause(match: re.Match[str]) -> str:
    return " " if _is_plain(match[0]) else match[0]


def _is_plain(text: str) -> bool:
    if _KEPT.search(text) is not None:
        return False
    words = re.findall(r"[^\W_]+(?:'[a-z]+)?", text.lower().replace("-", " ").replace("'s", ""))
    return all(w in _WORDS for w in words) and re.search(r"[=<>+*/^\[\]]", text) is None

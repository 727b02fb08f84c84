"""Words that change nothing: what is left of a request after reading must consist of these."""

import re

_WORDS = """
a about above across activation activations algorithm all along also an and any apply applied applies applying are array arrays as at be
below between both build buffer buffers by calculate calculated calculates calculating calculation called can code compute computed computes computing
computation contain containing contains contiguous corresponding create cuda data dataset define defined dense design develop device
do does done each efficient efficiently element elements elementwise entire entries entry equal evaluate evaluates every fast fastest
feature features float floating flattened following follow follows for from full function functions fused gave general generate get give given gives giving global gpu gpus
have having high how i implement implemented implementation implementing implements in independently input inputs is it item items its
just kernel kernels large layer layout length let like linear list long made make makes map mapping maps matrices matrix me memory method
named need needed needs new number numbers obtain of on only op operand operands operation operations optimised optimized or order
our out output outputs over pair pairs parallel per perform performance performed performing performs place please point position
precision problem produce produced produces producing program provide put quickly read reading reads real receive resulting result results return
returned returning returns row rows run runs same should shape shaped shapes simple single size sized sizes so some store stored stores
storing such supplied take taken takes taking task tensor tensors that the their them then these they this throughout thus to together type typed types use used uses using value values vector vectors via want wanted we when where which whole will with
within work would write writes writing written you your 1d 2d 3d 4d dimensional standard usual classic common respectively
wise back into has final gets performant robust correct correctly numerically stable numerical stability stably
polynomial expression embedding embeddings rectangular image images picture pictures constant like
reduce reduces reducing reduction reductions replace replaces replacing
must find finds what determine determines show shows process processes representing represents probability probabilities name named dtype
identical individual involves involving separate separately loss losses main goal aim hello hi thanks thank version variant
followed before after afterwards finally next subsequently passed through into
accurate random arbitrary contents content independent respective column columns major hold holding holds there were was been being
component components sample samples batch batches length lengths dim dims dimension dimensions axis last scalar stage network neural
learning deep model ml ai model models step steps formula formally mathematically namely ie eg nonlinearity nonlinear pointwise wide
handle handles handling size sizes arbitrarily sufficiently good nice modern nvidia hopper h100 h200 a100 architecture
row-major rowmajor c style batched matching vocabulary vocab multiple various among
index indices exactly match matches represent represented ensure ensures processed process correspondence transferred transfer logit logits label labels true
transformation identically shaped cover covers remain among averaged arithmetic accumulated accumulate maintain maintained include includes including
respect depends specifications predicted ground truth current variable positions adhere computations accordingly task operates equivalent denoted piecewise cases rules
""".split()  # noqa: SIM905 - a list of a few hundred words reads better as text
_NOT_FILLER = {"only", "random", "or", "when"}
FILLER = frozenset(_WORDS) - _NOT_FILLER
"""Single words without meaning for the computation."""

PHRASES: tuple[str, ...] = (
    r"numerically (?:stable|robust)(?: way| manner| form| version)?", r"for numerical stability",
    r"(?:using|with|by|via|through) (?:the )?(?:max|maximum) subtraction", r"(?:subtract(?:ing)?|after subtracting) (?:the )?(?:row )?max(?:imum)?(?: of each row)? (?:first|for (?:numerical )?stability)",
    r"(?:using|use|with|via|through|by) (?:static |dynamic )?(?:shared memory(?: tiling| tiles)?|tiling|tiles|warp shuffles?|warp level primitives|warp reductions?|vectori[sz]ed (?:loads|memory accesses)|coalesced (?:memory )?accesses|a grid stride loop|grid stride loops|parallel reduction|tree reduction|a tree)(?: for [a-z ]{3,30})?",
    r"tiled|coalesced|vectori[sz]ed|register blocked|grid stride|high performance|state of the art|as fast as possible|well optimi[sz]ed",
    r"(?:the )?(?:two|three|both) (?:input )?(?:vectors|arrays|matrices|tensors|inputs|rows)(?= \(?(?:are|have|must|is|contain))",
    r"on (?:the|a|an) (?:nvidia )?gpu", r"in cuda(?: c(?:\+\+)?)?", r"cuda c(?:\+\+)?", r"in parallel", r"at once",
    r"without (?:any )?bias|no bias|bias free", r"do not (?:change|modify|touch) the inputs?(?: data)?|without (?:changing|altering|modifying) (?:the )?inputs?(?: data)?|inputs? (?:is|are|must be|stays?) (?:left )?unchanged",
    r"of (?:the )?same (?:shape|size|length|dimensions?)(?: and (?:data )?type)?(?: as (?:the )?inputs?)?", r"same (?:shape|size) as (?:the )?inputs?",
    r"element by element|element wise|elementwise|component wise|componentwise|pointwise|point wise",
    r"in row major(?: order| layout| format)?|row major(?: order| layout)?", r"(?:as|into) (?:a |an )?(?:new|separate) (?:array|vector|matrix|tensor|buffer)",
    r"deterministic(?:ally)?|without atomics|no atomics|without (?:using )?(?:float )?atomic operations", r"(?:a|the) total of(?= \d)",
    r"(?:one|a single) (?:value|number|result|output|scalar) (?:per|for each|for every) (?:row|column)", r"which is (?:a|the)|that is",
    r"where (?:x|y|a|b|c|the input|the inputs|both)(?: and [a-z])? (?:is|are) (?:an? |the )?(?:input )?(?:vectors?|arrays?|matri(?:x|ces)|tensors?)",
    r"(?:is|are) (?:both )?(?:a )?contiguous", r"(?:for )?(?:all |every |each )?(?:index )?0 <= [ijk] < [a-z0-9]+",
    r"for (?:all |every |each |any )?(?:index )?[ijk] (?:in|from|=) (?:range\([^)]*\)|\[?0 ?(?:,? ?\.\.\.?,?|to|through|until|up to|,) ?[a-z0-9]+(?: ?-? ?1)?[\])]?)",
    r"[ijk] = 0,? ?\.\.\.?,? ?[a-z0-9]+(?: ?-? ?1)?", r"for (?:all|every|each) (?:i|j|k|index|indices|element|position)(?:(?:,| and) (?:i|j|k))*",
)  # fmt: skip

STOP_WORDS = frozenset(
    {
        "only",
        "not",
        "no",
        "without",
        "except",
        "unless",
        "if",
        "never",
        "ignore",
        "ignoring",
        "excluding",
        "skip",
        "skipping",
    }
)
"""Words that bend a meaning; left over, they are always a reason to refuse."""


def unknown_words(text: str) -> list[str]:
    """Return the words of the rest of a request that are neither filler nor punctuation, in order, each once."""
    rest = re.sub(r"\N{LEFT WHITE SQUARE BRACKET}\w+\N{RIGHT WHITE SQUARE BRACKET}", " ", text)
    words = re.findall(r"[^\W_][\w.+']*|[=<>^*/+%@&|\\~]", rest)
    found = [w.strip(".'") for w in words]
    single = {"x", "y", "z", "a", "b", "c", "u", "v", "w", "i", "j", "k", "p", "q", "d", "n", "m", "s", "t"}
    kept = [w for w in found if w and w not in FILLER and w not in single]
    return list(dict.fromkeys(kept))

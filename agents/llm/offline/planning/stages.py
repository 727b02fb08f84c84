"""The operations that words name, as patterns over normalised text (lower case, no hyphens)."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from cuda_harness.agents.llm.offline.planning.marked import Marked
from cuda_harness.agents.llm.offline.planning.numbers import REAL, WORDS


@dataclass(frozen=True)
class Stage:
    """One operation, in the words of the request."""

    kind: str
    """unary scalar binary reduce moment norm lse loss soft layer product transpose copy fill reverse gather scan blas bias."""
    name: str
    text: str
    values: tuple[float | None, ...] = ()
    parts: tuple["Stage", ...] = ()
    """Reductions of the same data, each with a result of its own."""


_ACTIVATION = r"(?: activation| activations| function| functions| nonlinearity| non linearity| layer)*"
_NOUN = r"(?:vectors?|arrays?|matri(?:x|ces)|tensors?|buffers?|inputs?|operands?)"
_SHAPES = r"\d+(?:\.\d+)? (?:million|thousand)|\d[\d,]*(?: ?(?:x|by) ?\d[\d,]*)*[kKmM]?|\d+(?:\^|\*\*)\d+|\(\d+(?:, ?\d+)*,?\)"
_LOOSE = (
    rf"(?P<mid>(?: (?:each|every|all|the|of|an?|its|it|them|elements?|entry|entries|values?|numbers?|whole|input|result|results|given|in|with|shape|size|length|doubles|floats?|ints|integers|float32|float64"
    rf"|float16|bfloat16|int32|half|double|precision|single|large|long|flat|1d|2d|batch|rows?|columns?|{_NOUN}|x|y|{_SHAPES}))*?)"
)
_SCALAR = r"(?:(?:an? |the |some )?(?:scalar|constant|factor|number|scaling factor|scale factor|scale)(?: (?:factor|value|constant|number))?(?: (?:alpha|beta|a|s|c|k))?|alpha|beta)"
_VALUE = rf"(?P<value>{REAL}(?! ?(?:x|by|elements|rows|d)\b)|{'|'.join(WORDS)})"

_UNARY: tuple[tuple[str, str], ...] = (
    ("leaky_relu", r"leaky ?re ?lu|leaky rectified linear units?|lrelu"),
    ("relu6", r"re ?lu ?6"),
    ("relu", r"re ?lus?|rectified linear units?|rectified linear|linear rectifier|rectifier"),
    ("selu", r"selu|scaled exponential linear units?"),
    ("celu", r"celu|continuously (?:differentiable )?exponential linear units?"),
    ("elu", r"elu|exponential linear units?"),
    ("gelu", r"gelu|gaussian error linear units?"),
    ("silu", r"silu|swish|sigmoid (?:weighted )?linear units?"),
    ("mish", r"mish"),
    ("log_sigmoid", r"log ?sigmoid"),
    ("hardsigmoid", r"hard ?sigmoid"),
    ("hardswish", r"hard ?swish|hard ?silu"),
    ("hardtanh", r"hard ?tanh|hard hyperbolic tangent"),
    ("hardshrink", r"hard ?shrink(?:age)?"),
    ("softshrink", r"soft ?shrink(?:age)?|soft thresholding"),
    ("tanhshrink", r"tanh ?shrink"),
    ("sigmoid", r"logistic sigmoid|sigmoid|logistic"),
    ("tanh", r"hyperbolic tangents?|tanh"),
    ("sinh", r"hyperbolic sines?|sinh"),
    ("cosh", r"hyperbolic cosines?|cosh"),
    ("softplus", r"soft ?plus"),
    ("softsign", r"soft ?sign"),
    ("rsqrt", r"(?:inverse|reciprocal) (?:of the )?square roots?|rsqrt"),
    ("sqrt", r"square roots?|sqrt"),
    ("log2", r"log2|base 2 logarithms?|logarithms? (?:to|in|with) base 2|binary logarithms?"),
    ("log10", r"log10|base 10 logarithms?|logarithms? (?:to|in|with) base 10|decimal logarithms?"),
    ("log1p", r"log1p"),
    ("log", r"natural logarithms?|natural logs?|logarithms?|logs?|ln"),
    ("expm1", r"expm1"),
    ("exp2", r"exp2"),
    ("exp", r"exponentials?|exponentiat(?:e|es|ing)|exp"),
    ("reciprocal", r"reciprocals?|multiplicative inverses?"),
    ("abs", r"absolute values?|absolute|abs|magnitudes?"),
    ("square", r"squar(?:e|es|ed|ing)"),
    ("cube", r"cub(?:e|es|ed|ing)"),
    ("negate", r"negat(?:e|es|ed|ing|ion)|negative|additive inverses?|minus sign"),
    ("sign", r"signs?|signum"),
    ("asin", r"arc ?sines?|arcsin|asin"), ("acos", r"arc ?cosines?|arccos|acos"), ("atan", r"arc ?tangents?|arctan|atan"),
    ("sin", r"sines?|sin"), ("cos", r"cosines?|cos"), ("tan", r"tangents?|tan"),
    ("erf", r"error function|erf"),
    ("floor", r"floor"), ("ceil", r"ceil(?:ing)?"), ("trunc", r"truncat(?:e|es|ed|ion)"),
    ("round", r"round(?:s|ed|ing)?(?: to the nearest integer)?"),
)  # fmt: skip

_AXIS_FREE = r"(?: (?:row|column)s?)?"
_MATRIX = r"(?:(?:dense|square|large|small|float32|float64|float16|bfloat16|input|general|row major|the|a|an|\N{LEFT WHITE SQUARE BRACKET}shape\d+\N{RIGHT WHITE SQUARE BRACKET}) )*"
_SHAPE = r"\N{LEFT WHITE SQUARE BRACKET}shape\d+\N{RIGHT WHITE SQUARE BRACKET}"
_LETTER = rf"(?: [a-z]\b)?(?: (?:of (?:size |shape )?|with (?:size |shape )?)?{_SHAPE})?"
_PRODUCT = r"(?:products?|multiplications?|multiply|multiplies|mult)"

_PATTERNS: tuple[tuple[str, str, str], ...] = (
    # losses and the distances like them
    ("loss", "rmse", r"root mean squared? errors?|rmse(?: loss)?|rms error"),
    ("loss", "bce_logits", r"binary cross entropy(?: loss)?(?: directly)? (?:with|from|on|over) logits(?: loss)?|bce ?with ?logits(?: loss)?|bce (?:with|from|on) logits"),
    ("loss", "bce", r"binary cross entropy(?: loss)?|bce(?: loss)?|log loss"),
    ("loss", "cross_entropy", r"(?:sparse |softmax )?(?:categorical )?cross entropy(?: loss)?(?: (?:with|from|over|on|of) (?:the )?logits)?|(?:softmax (?:negative log likelihood|nll)|(?:negative log likelihood|nll)(?: loss)? (?:of|after|from|over) (?:the |a )?soft ?max)(?: loss)?"),
    ("loss", "smooth_l1", r"smooth l1(?: loss)?"),
    ("loss", "mse", r"(?:mean|average) (?:of )?(?:the )?squared? (?:errors?|differences?|deviations?)(?: loss)?|mse(?: loss)?|(?:mean )?l2 loss"),
    ("loss", "mae", r"(?:mean|average) (?:of )?(?:the )?absolute (?:errors?|differences?|deviations?)(?: loss)?|mae(?: loss)?|(?:mean )?l1 loss"),
    ("loss", "sse", r"(?:sum|total) (?:of )?(?:the )?squared? (?:errors?|differences?)(?: loss)?|sse"),
    ("loss", "sae", r"(?:sum|total) (?:of )?(?:the )?absolute (?:errors?|differences?)(?: loss)?"),
    ("loss", "huber", r"huber(?: loss)?"),
    ("loss", "hinge", r"hinge(?: loss)?"),
    ("loss", "log_cosh", r"log cosh(?: loss)?"),
    ("loss", "kl", r"kullback leibler(?: divergence)?(?: loss)?|kl div(?:ergence)?(?: loss)?|relative entropy"),
    ("rowpair", "cosine", r"cosine similarit(?:y|ies)"),
    ("rowpair", "euclidean", r"(?:pairwise )?euclidean distances?|l2 distances?"),
    ("rowpair", "manhattan", r"manhattan distances?|l1 distances?"),
    # softmax and norms of layers
    ("soft", "log_softmax", r"log ?soft ?max"),
    ("soft", "softmin", r"soft ?min"),
    ("soft", "softmax", r"soft ?max(?:es)?"),
    ("lse", "logsumexp", r"log ?sum ?exp(?:onentials?)?|log of the sum of (?:the )?exponentials"),
    ("layer", "layer_norm", r"layer ?norm(?:ali[sz](?:e|es|ed|ation|ing))?"),
    ("layer", "rms_norm", r"rms ?norm(?:ali[sz](?:e|es|ed|ation|ing))?|root mean square (?:layer )?normali[sz]ation"),
    ("layer", "batch_norm", r"batch ?norm(?:ali[sz](?:e|es|ed|ation|ing))?(?: [12]d)?"),
    ("layer", "l2_normalize", r"(?:l2|euclidean) ?normali[sz](?:e|es|ed|ation|ing)|normali[sz](?:e|es|ed|ing|ation)(?: of)?(?: (?:each|every|the|all))?(?: rows?| columns?| vectors?)?(?: (?:of |an? |the )[^.;]{0,40}?)?(?: by| with| to| using) (?:its|their|the|an?|unit|have unit)? ?(?:own )?(?:l2|euclidean|unit)(?: l2| euclidean)? ?(?:norm|length)?"),
    ("layer", "l1_normalize", r"l1 ?normali[sz](?:e|es|ed|ation|ing)|normali[sz](?:e|es|ed|ing) (?:each|every) row (?:by|so that) (?:its|it) (?:l1 norm|sums? to (?:one|1))"),
    ("layer", "standardize", r"standardi[sz](?:e|es|ed|ation|ing)|z ?scores?(?: normali[sz]ation)?"),
    # products of matrices and vectors
    ("product", "batched", rf"batched (?:matrix matrix |matrix )?(?:{_PRODUCT}|gemm)|batched matmul|bmm|batch(?:ed)? of matrix {_PRODUCT}|batch matrix {_PRODUCT}|batch matmul"),
    ("product", "matvec", rf"matrix vector {_PRODUCT}|matvec|[sdh]?gemv|(?:multiply|multiplies) {_MATRIX}matrix{_LETTER} (?:by|with|and|times) {_MATRIX}(?:column )?vector{_LETTER}|product of {_MATRIX}matrix{_LETTER} (?:and|with) {_MATRIX}vector{_LETTER}|{_MATRIX}matrix{_LETTER} times {_MATRIX}vector{_LETTER}"),
    ("product", "vecmat", rf"vector matrix {_PRODUCT}|vecmat|(?:multiply|multiplies) {_MATRIX}(?:row )?vector{_LETTER} (?:by|with|times) {_MATRIX}matrix{_LETTER}|{_MATRIX}(?:row )?vector{_LETTER} times {_MATRIX}matrix{_LETTER}"),
    ("product", "dot", r"sum of (?:the )?(?:elementwise )?products(?: of)?(?: (?:the )?(?:corresponding|matching|paired) (?:elements|entries|components))?"),
    ("product", "outer", r"outer products?"),
    ("product", "linear", r"linear (?:layer|projection|transformation)|fully connected layer|dense layer"),
    ("product", "gram", r"gram matrix"),
    ("product", "matmul", rf"matrix matrix {_PRODUCT}|matrix {_PRODUCT}|matmul|[sdh]?gemm|(?:multiply|multiplies|multiplying) (?:together )?(?:two|2|both|the) {_MATRIX}matrices(?: together)?|products? of (?:two|2|the) {_MATRIX}matrices|(?:multiply|multiplies|multiplying) {_MATRIX}matrices(?: [a-z] and [a-z])?|(?:multiply|multiplies|multiplying) {_MATRIX}matrix{_LETTER} (?:by|with|times|and) (?:the )?(?:transpose of |transposed )?{_MATRIX}(?:matrix{_LETTER}|another matrix)|{_MATRIX}matrix{_LETTER} times {_MATRIX}matrix{_LETTER}|product of {_MATRIX}matrix{_LETTER} and {_MATRIX}matrix{_LETTER}"),
    ("product", "dot", r"dot(?= ?\()|dot(?= (?:each|every|two|vectors?|rows?|of|[a-z])\b)|dot products?|inner products?|scalar products?|[sdh]dot"),
    # moving data
    ("transpose", "transpose", r"(?:transpos(?:e|es|ing|ition)|swap(?:s|ping)?|exchang(?:e|es|ing)|permut(?:e|es|ing))(?: of)?(?: the| its)? last two (?:axes|dimensions|dims)|transpos(?:e|es|ing|ition)(?: (?:of|the|a))*(?= matrix| each| every| batch| \N{LEFT WHITE SQUARE BRACKET}|\b)|swap(?:s|ping)? (?:the )?rows and (?:the )?columns|transposed copy|transposed"),
    ("scan", "exclusive", r"exclusive (?:prefix sums?|scans?|cumulative sums?|cumsum|sum scan)(?: (?:with|by|using) (?:addition|sums?|plus)| \(sum(?=\)))?"),
    ("scan", "prod", r"(?:inclusive )?(?:cumulative products?|cumprod|prefix products?|running products?)"),
    ("scan", "max", r"cumulative max(?:imum|ima)?|cummax|running max(?:imum)?|prefix max(?:imum)?"),
    ("scan", "min", r"cumulative min(?:imum|ima)?|cummin|running min(?:imum)?|prefix min(?:imum)?"),
    ("scan", "sum", r"(?:inclusive )?(?:prefix sums?|scans?)(?: (?:with|by|using) (?:addition|sums?|plus)| \(sum(?=\)))?|cumulative sums?|cumsum|running (?:sums?|totals?)|inclusive (?:cumulative sum|sum scan)"),
    ("reverse", "reverse", r"revers(?:e|es|ed|ing|al)(?: (?:the )?order(?: of)?)?|flip(?:s|ped)?"),
    ("gather", "gather", r"gather(?:s|ing)? (?:of )?(?:the )?rows(?: by (?:their )?(?:index|indices))?|embedding (?:table )?look ?ups?|row gather|look ?up (?:of )?(?:the )?(?:embeddings|rows)"),
    ("blas", "axpby", r"[sd]?axpby"),
    ("blas", "axpy", r"[sdh]?axpy"),
    ("blas", "scal", r"[sd]?scal"),
    ("blas", "swap", r"swap(?:s|ping)?(?: the)?(?: contents(?: of)?)?(?: two)? (?:vectors|arrays)|exchang(?:e|es|ing)(?: the)? contents of(?: two)? (?:vectors|arrays)|[sd]swap"),
    ("blas", "rot", r"[sd]?rot|(?:rotat(?:e|es|ing) (?:the |two )?vectors(?: [a-z] and [a-z])? (?:by|with) (?:the |a )?)?(?:givens|plane) rotation"),
    ("norm", "l2", r"[sd]?nrm2"), ("norm", "l1", r"[sd]?asum"), ("blas", "iamax", r"i[sd]?amax"), ("copy", "copy", r"[sd]copy"),
    ("blas", "fma", r"fused multiply (?:add|accumulate)|multiply (?:add|accumulate)|fma|mac"),
    ("blas", "combine", r"weighted sums?|linear combinations?"),
    ("blas", "lerp", r"linear(?:ly)? interpolat(?:e|ion)|lerp"),
    # reductions
    ("reduce", "argmax", r"arg ?max|(?:index|indices|position|positions) of (?:the |its )?(?:max(?:imum|ima)?|largest|greatest|biggest)(?: (?:value|element|entry|elements|values))?"),
    ("reduce", "argmin", r"arg ?min|(?:index|indices|position|positions) of (?:the |its )?(?:min(?:imum|ima)?|smallest|least|lowest)(?: (?:value|element|entry|elements|values))?"),
    ("norm", "rms", r"root mean squares?|rms(?: values?)?"),
    ("norm", "max", r"(?:infinity|maximum|max|linf) norms?"),
    ("norm", "l1", r"(?:l1|manhattan|taxicab) norms?"),
    ("norm", "l2", r"(?:l2|euclidean|frobenius) norms?|(?:euclidean )?length of (?:each|every) row"),
    ("moment", "std_sample", r"(?:sample|unbiased|corrected) standard deviations?"),
    ("moment", "std", r"(?:population )?standard deviations?|std(?: ?dev)?"),
    ("moment", "variance_sample", r"(?:sample|unbiased) variances?"),
    ("moment", "variance", r"(?:population |biased )?variances?|var"),
)  # fmt: skip

_LATE: tuple[tuple[str, str, str], ...] = (
    ("bias", "bias", r"(?:add(?:s|ing|ed)?|plus|with|including|and) (?:an?|the|its)? ?(?:per column |column |row |1d |output )?bias(?:es)?(?: vector| term| addition| add)?(?: added)?|bias (?:add(?:ition)?|vector|term)|bias"),
    ("binary", "-abs", r"absolute differences?"),
    ("binary", "-sq", r"squared differences?"),
    ("binary", "-", r"subtract(?:s|ing|ion)?|differences?|minus"),
    ("binary", "/", r"divid(?:e|es|ing|ed)|divisions?|quotients?|ratios?"),
    ("both", "*", r"multipl(?:y|ies|ying|ied|ication)|products?|hadamard products?|times"),
    ("both", "+", r"add(?:s|ing|ed|ition)?(?: up| together)?|sum(?:s|ming)? up|sums?|summ(?:ation|ing|ed)|plus|total|accumulat(?:e|es|ing)|sum reduction|totals?(?= of)"),
    ("both", "max", r"max(?:imum|ima|imums)?|largest|greatest"),
    ("both", "min", r"min(?:imum|ima|imums)?|smallest|lowest"),
    ("both", "mean", r"means?|averag(?:e|es|ing)"),
    ("copy", "copy", r"cop(?:y|ies|ying)|duplicat(?:e|es|ing)|memcpy|clone"),
)  # fmt: skip

OPEN, CLOSE = "\N{LEFT WHITE SQUARE BRACKET}", "\N{RIGHT WHITE SQUARE BRACKET}"


def find_early(text: Marked, stages: list[Stage]) -> None:
    """Take out the operations that carry numbers of their own: clamps, scalings, powers, fills."""

    def put(stage: Stage, match: re.Match[str]) -> str:
        """Return the stage's marker, and the words in its middle: sizes and axes are read later."""
        stages.append(stage)
        middle = match["mid"] if "mid" in match.re.groupindex and match["mid"] else ""
        return f" {OPEN}op{len(stages) - 1}{CLOSE} {middle} "

    def value(text_: str | None) -> float | None:
        return None if text_ is None else float(WORDS.get(text_, text_))

    def sign(match: re.Match[str], verbs: dict[str, str]) -> str:
        return next(op for begin, op in verbs.items() if match["verb"].startswith(begin))

    low, high = rf"(?P<low>{REAL})", rf"(?P<high>{REAL})"
    between = (
        r"(?: (?:to|between|within|into|in|on))(?: the| a)?(?: (?:range|interval))?(?: (?:of|from|between))?"
    )
    text.replace(
        re.compile(
            rf"\b(?:clamp|clip|limit|saturate|bound)(?:s|ed|ing|ped|ping|d)?{_LOOSE}{between}\s*[\[(]?\s*{low}\s*(?:,|and|to|\.\.)\s*{high}\s*[\])]?"
        ),
        lambda m: put(Stage("unary", "clamp", m[0], (float(m["low"]), float(m["high"]))), m),
    )
    text.replace(
        re.compile(
            rf"\b(?:fill|set|initiali[sz]e)(?:s|ing)?{_LOOSE} (?:to|with|by)(?: the)?(?: (?:value|constant))? (?:{_VALUE}|(?P<word>zeros?|ones?))(?![\w.]\d)\b"
        ),
        lambda m: put(
            Stage("fill", "fill", m[0], (value(m["value"]) if m["value"] else float("one" in m["word"]),)), m
        ),
    )
    text.replace(
        re.compile(rf"\bzero(?:es|s)? out{_LOOSE}(?= ?$|\.|,)"),
        lambda m: put(Stage("fill", "fill", m[0], (0.0,)), m),
    )
    powers = {"s": 2.0, "2": 2.0, "t": 3.0, "3": 3.0, "f": 4.0, "4": 4.0}
    text.replace(
        re.compile(
            rf"\b(?:raise|raises|raised|raising){_LOOSE} to (?:the )?(?:power (?:of )?{_VALUE}|(?P<nth>second|third|fourth|2nd|3rd|4th) power)"
        ),
        lambda m: put(
            Stage("scalar", "^", m[0], (value(m["value"]) if m["value"] else powers[m["nth"][0]],)), m
        ),
    )
    text.replace(
        re.compile(
            rf"\b(?P<verb>multipl(?:y|ies|ied|ying)|scal(?:e|es|ed|ing)|divid(?:e|es|ed|ing)){_LOOSE} by (?:{_VALUE}|{_SCALAR})(?![\w.])(?! ?(?:x|by) ?\d)"
        ),
        lambda m: put(
            Stage("scalar", sign(m, {"mul": "*", "scal": "*", "div": "/"}), m[0], (value(m["value"]),)), m
        ),
    )
    text.replace(
        re.compile(
            rf"\b(?P<verb>add|adds|adding|increment|increments|subtract|subtracts|subtracting|decrement) (?:(?:an? |the )?(?:constant |scalar |value |number )?(?:of )?{_VALUE}|{_SCALAR})(?:(?: to| from){_LOOSE}(?= |$|\.|,)|(?= ?$| ?[.,;]| and | then ))"
        ),
        lambda m: put(
            Stage("scalar", sign(m, {"a": "+", "i": "+", "s": "-", "d": "-"}), m[0], (value(m["value"]),)), m
        ),
    )
    text.replace(
        re.compile(rf"\b(?P<verb>increment|increments|decrement|decrements){_LOOSE} by {_VALUE}"),
        lambda m: put(Stage("scalar", sign(m, {"i": "+", "d": "-"}), m[0], (value(m["value"]),)), m),
    )
    text.replace(
        re.compile(
            rf"\b(?P<verb>times|plus|minus|divided by|multiplied by) {_VALUE}(?![\w.])(?! ?(?:x|by) ?\d)"
        ),
        lambda m: put(
            Stage(
                "scalar",
                sign(m, {"t": "*", "p": "+", "d": "/", "mi": "-", "mu": "*"}),
                m[0],
                (value(m["value"]),),
            ),
            m,
        ),
    )
    text.replace(
        re.compile(r"\bdoubl(?:e|es|ing)(?= (?:each|every|all|the))"),
        lambda m: put(Stage("scalar", "*", m[0], (2.0,)), m),
    )
    text.replace(re.compile(r"\bhalv(?:e|es|ing)\b"), lambda m: put(Stage("scalar", "*", m[0], (0.5,)), m))


def find_stages(text: Marked, stages: list[Stage]) -> None:
    """Take out every named operation, the more specific phrase first; a marker keeps its place."""

    def putter(kind: str, name: str) -> Callable[[re.Match[str]], str]:
        def put(match: re.Match[str]) -> str:
            stages.append(Stage(kind, name, match[0].strip()))
            return f" {OPEN}op{len(stages) - 1}{CLOSE} "

        return put

    for kind, name, pattern in _PATTERNS:
        text.replace(re.compile(rf"\b(?:{pattern})\b"), putter(kind, name))
    for kind, name, pattern in _LATE[:3]:
        text.replace(re.compile(rf"\b(?:{pattern})(?![\w])"), putter(kind, name))
    for name, pattern in _UNARY:
        text.replace(re.compile(rf"\b(?:{pattern})\b{_ACTIVATION}"), putter("unary", name))
    for kind, name, pattern in _LATE[3:]:
        text.replace(re.compile(rf"\b(?:{pattern})(?![\w])"), putter(kind, name))


def markers(text: str) -> Iterator[tuple[int, int, int]]:
    """Yield (stage number, start, end) of the markers in the text, in order."""
    for match in re.finditer(rf"{OPEN}op(\d+){CLOSE}", text):
        yield int(match[1]), match.start(), match.end()

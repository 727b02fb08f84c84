"""Requests of any kind end in a plan that checks or in a refusal that says why; numbers are read however they are written."""

from hypothesis import given
from hypothesis import strategies as st

from cuda_harness.agents.llm.offline.planning.numbers import read_size
from cuda_harness.agents.llm.offline.planning.numerals import plain_numbers
from cuda_harness.agents.llm.offline.planning.planner import plan
from cuda_harness.agents.llm.offline.planning.refusal import Refusal
from cuda_harness.state.ir import KernelIR
from cuda_harness.tools.formula.parse import FormulaError
from cuda_harness.tools.ir.check import check_ir

ONES = ("", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve", "thirteen", "fourteen",
        "fifteen", "sixteen", "seventeen", "eighteen", "nineteen")  # fmt: skip
TENS = ("", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")


def below_thousand(n: int) -> str:
    words = [f"{ONES[n // 100]} hundred"] if n >= 100 else []
    rest = n % 100
    if rest >= 20:
        words.append(f"{TENS[rest // 10]}-{ONES[rest % 10]}".rstrip("-"))
    elif rest:
        words.append(ONES[rest])
    return " and ".join(words)


def spoken(n: int) -> str:
    parts = [(n // 10**6, " million"), (n // 1000 % 1000, " thousand"), (n % 1000, "")]
    return " ".join(below_thousand(count) + scale for count, scale in parts if count)


@given(st.integers(min_value=11, max_value=10**9 - 1))
def test_a_spoken_number_is_the_number(n: int) -> None:
    assert plain_numbers(f"a vector of {spoken(n)} floats") == f"a vector of {n} floats"


@given(
    st.integers(min_value=0, max_value=40), st.sampled_from(["1<<{}", "1 << {}", "2^{}", "2**{}", "2 ** {}"])
)
def test_a_power_of_two_is_read_however_it_is_written(exponent: int, form: str) -> None:
    assert plain_numbers(form.format(exponent)) == str(2**exponent)


@given(st.integers(min_value=1, max_value=10**12))
def test_groups_of_digits_are_one_number(n: int) -> None:
    assert read_size(f"{n:,}") == n


@given(st.integers(min_value=1, max_value=4000), st.sampled_from("kKmM"))
def test_a_suffix_is_binary_beside_a_power_of_two_and_decimal_else(n: int, suffix: str) -> None:
    two = n & (n - 1) == 0
    scale = {"k": 1024 if two else 1000, "m": 1 << 20 if two else 10**6}[suffix.lower()]
    assert read_size(f"{n}{suffix}") == n * scale


WORDS = st.sampled_from(
    """add sum softmax relu of each row column matrix vector the two 64 by 32 x 1000 elements float16 transpose mean then and with
    bias multiply y[i] = a*x[i] + b[i] n = 100 million half not only loss between predictions axis 1 batch 8 variance ( ) , . 2^10
    argmax doubles integers scan C = A @ B one 1<<12 64 MiB""".split()  # noqa: SIM905 - reads better as text
)


@given(st.lists(WORDS, min_size=1, max_size=14))
def test_any_words_end_in_a_plan_that_checks_or_in_a_refusal(words: list[str]) -> None:
    try:
        data = plan(" ".join(words))
    except (Refusal, FormulaError) as exc:
        assert str(exc)
        return
    assert check_ir(KernelIR.model_validate(data)) == []


@given(st.text(max_size=60))
def test_any_text_ends_in_a_plan_or_in_a_refusal(text: str) -> None:
    try:
        KernelIR.model_validate(plan(text))
    except (Refusal, FormulaError) as exc:
        assert str(exc)

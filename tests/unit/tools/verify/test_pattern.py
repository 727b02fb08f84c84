"""A mismatch at one element borrows the pattern that a larger case shows."""

from typing import Any, NoReturn

from cuda_harness.state.results import Failure
from cuda_harness.tools.verify.cases import _with_pattern
from cuda_harness.tools.verify.climb import Ending, Skipped


def ending(class_: str, **evidence: Any) -> Ending:
    failure = Failure.model_validate(
        {"stage": "tiny", "class": class_, "message": "y[0] is 3, expected 2", "evidence": evidence}
    )
    return Ending("failed", failure)


def raising(what: Exception) -> Any:
    def run() -> NoReturn:
        raise what

    return run


SMALL = {"of": 1, "pattern": None, "dims": {"n": 1}}


def test_the_pattern_of_a_larger_case_is_told() -> None:
    larger = ending("mismatch", of=129, pattern="a constant factor of 1.5", dims={"n": 129})
    told = _with_pattern(ending("mismatch", **SMALL), raising(larger)).failure
    assert told.message == "y[0] is 3, expected 2; at sizes {'n': 129} it looks like a constant factor of 1.5"
    assert told.evidence["pattern"] == "a constant factor of 1.5"
    assert told.evidence["dims"] == {"n": 1}


def test_what_shows_nothing_further_leaves_the_failure_as_it_is() -> None:
    first = ending("mismatch", **SMALL)
    others = (
        ending("data_race", dims={"n": 129}), ending("mismatch", of=129, pattern=None, dims={}), Skipped("no")
    )  # fmt: skip
    for other in others:
        assert _with_pattern(first, raising(other)) is first
    assert _with_pattern(first, lambda: None) is first


def test_nothing_further_is_run_where_the_failure_speaks_for_itself() -> None:
    for seen in (
        ending("data_race", of=1),
        ending("mismatch", of=129, pattern=None),
        ending("mismatch", of=2, pattern="the opposite sign"),
    ):
        assert _with_pattern(seen, raising(AssertionError("was run"))) is seen

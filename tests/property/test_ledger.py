"""One ledger for all branches: never beyond a limit, whatever is in flight, and exact after a resume."""

import json
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from cuda_harness.agents.llm.ledger import Ledger, Reservation
from cuda_harness.state.budget import Budget, Usage
from cuda_harness.state.errors import BudgetExhausted
from cuda_harness.tools.archive.run_folder import RunFolder

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("reserve"), st.integers(0, 3_000)),
        st.tuples(st.just("settle"), st.integers(0, 2_000)),
        st.tuples(st.just("release"), st.just(0)),
    ),
    max_size=40,
)


@settings(max_examples=60, deadline=None)
@given(steps=STEPS, calls=st.integers(0, 12))
def test_any_course_of_calls_stays_within_the_limit_and_is_read_back_exactly(
    steps: list[tuple[str, int]], calls: int
) -> None:
    with tempfile.TemporaryDirectory() as root:
        folder = RunFolder(Path(root))
        book = Ledger(Budget(max_calls=calls), folder=folder, clock=lambda: 0.0)
        flying: list[Reservation] = []
        booked = 0
        for step, size in steps:
            if step == "reserve":
                try:
                    flying.append(book.reserve(model="m", prompt_chars=size))
                except BudgetExhausted:
                    assert booked + len(flying) == calls
            elif flying and step == "release":
                book.release(flying.pop())
            elif flying:
                usage = Usage(input_tokens=size, output_tokens=size // 2)
                folder.write_text(f"replies/coder-main-{booked}-0.json", json.dumps({
                    "model": "m", "usage": usage.model_dump(), "prompt_chars": 10, "reply": "r", "elapsed_s": 0.0,
                }))  # fmt: skip
                book.settle(flying.pop(0), key=f"coder-main-{booked}-0.json", usage=usage, reply_chars=1)
                booked += 1
            assert booked + len(flying) <= calls
            assert book.calls_left() == calls - booked - len(flying)
        again = Ledger(Budget(max_calls=calls), folder=folder, clock=lambda: 0.0)
        assert again.spend() == book.spend()
        assert again.calls_left() == calls - booked

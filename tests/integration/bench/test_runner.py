"""The suite's runner: one budget for all, and nothing that a task does stops the others."""

import json
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
from pydantic import SecretStr
from tests.fakes.openai_server import Answer, openai_server

from cuda_harness.graph.benchmark import ENOUGH, Bench, Order
from cuda_harness.graph.entry import spec_for
from cuda_harness.state.budget import Budget
from cuda_harness.state.errors import ConfigError, ExecutorUnavailable, ModelUnavailable, ReplyInvalid
from cuda_harness.state.settings import ModelSettings, Settings
from cuda_harness.tools.benchmarks.clarify import answers_to, as_text, read_clarifications
from cuda_harness.tools.benchmarks.purse import Purse
from cuda_harness.tools.benchmarks.results import Results, Row
from cuda_harness.tools.benchmarks.task import read_tasks

SUITE = Path(__file__).resolve().parents[3] / "examples" / "suite"


def test_what_a_run_did_not_spend_goes_back() -> None:
    purse = Purse({"max_calls": 10}, Budget(max_calls=60))
    first = purse.draw(1)
    assert first is not None
    assert first.max_calls == 10
    assert purse.draw(1) is None
    purse.settle(
        first, {"calls": 4, "input_tokens": None, "output_tokens": None, "usd": None, "gpu_seconds": 0.0}
    )
    second = purse.draw(1)
    assert second is not None
    assert second.max_calls == 6


def test_what_earlier_calls_spent_counts_and_a_run_keeps_what_it_had() -> None:
    def row(calls: int) -> Row:
        return {"calls": calls, "input_tokens": None, "output_tokens": None, "usd": None, "gpu_seconds": None}

    purse = Purse({"max_calls": 30}, Budget(max_calls=20), spent=[row(6), row(4)])
    fresh = purse.draw(1)
    assert fresh is not None
    assert fresh.max_calls == 20
    purse.settle(fresh, row(20))  # nothing is left
    assert purse.draw(1) is None

    purse = Purse({"max_calls": 12}, Budget(max_calls=20), spent=[row(6), row(4)])
    resumed = purse.draw(1, before=row(6))
    assert resumed is not None
    assert resumed.max_calls == 6 + 2  # limits count the whole run
    purse.settle(resumed, row(7), before=row(6))
    last = purse.draw(1)
    assert last is not None
    assert last.max_calls == 1


def test_what_is_unknown_counts_as_spent() -> None:
    purse = Purse({"max_tokens": 1000}, Budget())
    drawn = purse.draw(2)
    assert drawn is not None
    assert drawn.max_tokens == 500
    purse.settle(
        drawn, {"calls": 1, "input_tokens": None, "output_tokens": None, "usd": None, "gpu_seconds": 0.0}
    )
    again = purse.draw(1)
    assert again is not None
    assert again.max_tokens == 500


def test_time_runs_for_all_alike() -> None:
    purse = Purse({"max_seconds": 1e-9}, Budget())
    assert purse.draw(4) is None


def bench(out: Path, script: dict[int, BaseException | None], *, jobs: int = 1) -> Bench:
    """A bench whose tasks do what the script says, by id, in place of running."""

    class Scripted(Bench):
        def _one(self, row: Row, work: tuple, budget: Budget) -> None:  # type: ignore[type-arg]
            found = script[work[0].id]
            if found is not None:
                raise found
            row |= {"status": "verified", "comp": True, "func": True, "func_official": True, "calls": 1}

    tasks = [t for t in read_tasks(SUITE) if t.id in script]
    order = Order("suite", tasks, (1,), jobs=jobs, executors=("cpu",))
    return Scripted(order, Settings(model="offline"), out, report=lambda _line: None)


@pytest.mark.parametrize("jobs", [1, 3])
def test_a_task_that_fails_never_stops_the_others(tmp_path: Path, jobs: int) -> None:
    script = {0: None, 1: ValueError("boom"), 2: ModelUnavailable("down"), 3: ConfigError("odd"), 4: None}
    document = bench(tmp_path, script, jobs=jobs).run()
    rows = {r["id"]: r for r in map(json.loads, (tmp_path / "results.jsonl").read_text().splitlines())}
    assert [rows[n]["status"] for n in range(5)] == ["verified", "error", "unavailable", "error", "verified"]
    assert "ValueError: boom" in rows[1]["detail"]
    assert (rows[1]["func"], rows[2]["func"]) == (None, None)
    assert (document["overall"]["results"], document["overall"]["not_graded"]) == (5, 3)
    assert document["notes"] == [
        "3 result(s) not run to an end (see status); the same command runs them again"
    ]

    again = bench(tmp_path, {**script, 1: None, 2: ReplyInvalid("odd"), 3: None}, jobs=jobs).run()
    assert (again["overall"]["results"], again["overall"]["graded"], again["notes"]) == (5, 5, [])
    assert again["overall"]["func_percent"] == 80.0
    assert len((tmp_path / "results.jsonl").read_text().splitlines()) == 8


@pytest.mark.parametrize(
    "error", [ModelUnavailable("down"), ConfigError("the endpoint refused the key (401)")]
)
def test_a_provider_that_stays_away_ends_the_suite(tmp_path: Path, error: Exception) -> None:
    document = bench(tmp_path, dict.fromkeys(range(12), error)).run()
    assert document["overall"]["results"] == ENOUGH
    assert document["notes"][0] == "stopped: the provider or the settings failed 5 times in a row"
    assert bench(tmp_path, dict.fromkeys(range(12))).run()["overall"]["func_percent"] == 100.0


def test_a_lost_device_ends_the_suite_and_keeps_what_is_done(tmp_path: Path) -> None:
    script = {0: None, 1: ExecutorUnavailable("cuda:0", "gone"), 2: None}
    with pytest.raises(ExecutorUnavailable):
        bench(tmp_path, script).run()
    assert len((tmp_path / "results.jsonl").read_text().splitlines()) == 1
    document = bench(tmp_path, {0: None, 1: None, 2: None}).run()
    assert document["overall"]["results"] == 3


def test_an_interrupt_keeps_what_is_done(tmp_path: Path) -> None:
    document = bench(tmp_path, {0: None, 1: KeyboardInterrupt(), 2: None}).run()
    assert any("interrupted" in note for note in document["notes"])
    assert document["overall"]["results"] < 3
    assert not [t for t in threading.enumerate() if t.name.startswith("bench")]


@pytest.mark.parametrize(
    ("limits", "stop", "kept"),
    [
        ({"max_calls": 3.0}, "budget", False),  # the suite's budget left it less than a run may have
        ({"max_calls": 500.0}, "budget", True),  # its own budget: that is a failure of the task
        ({"max_calls": 3.0}, "no_correct_kernel", True),
    ],
)
def test_what_only_the_suites_budget_ended_is_left_for_later(
    tmp_path: Path, limits: dict[str, float], stop: str, kept: bool
) -> None:
    tasks = [t for t in read_tasks(SUITE) if t.id == 1]
    order = Order("suite", tasks, (1,), limits=limits, executors=("cpu",))

    class Cut(Bench):
        def _one(self, row: Row, work: tuple, budget: Budget) -> None:  # type: ignore[type-arg]
            document = {"usage": {"calls": 2}}
            detail = "budget 'max_calls' is spent: 3 of 3 calls are made"
            result = SimpleNamespace(
                document=document, verdict=None, timing=None, stop={"reason": stop, "detail": detail}, status="failed", ir=None,
                run_dir=tmp_path, state=SimpleNamespace(result=None, attempts={}),
            )  # fmt: skip
            self._take(row, work, result, budget)  # type: ignore[arg-type]

    document = Cut(order, Settings(model="offline"), tmp_path / "r", report=lambda _line: None).run()
    (row,) = map(json.loads, (tmp_path / "r" / "results.jsonl").read_text().splitlines())
    assert (row["status"], row["func"], row["calls"]) == (
        ("failed", False, 2) if kept else ("cut short", None, 2)
    )
    assert bool(document["notes"]) is not kept


def test_more_tasks_go_into_the_same_folder_and_changed_ones_do_not(tmp_path: Path) -> None:
    head = {"suite": "s", "model": "m", "created": "now", "tasks": {"1": "a"}}
    Results(tmp_path, head)
    more = Results(tmp_path, {**head, "tasks": {"2": "b"}})
    assert more.head["tasks"] == {"1": "a", "2": "b"}
    with pytest.raises(ConfigError, match="another version of task 1"):
        Results(tmp_path, {**head, "tasks": {"1": "c", "2": "b"}})


def test_each_result_has_a_recording_of_its_own(tmp_path: Path) -> None:
    assert spec_for("record:runs/tape:openai:m", "0003-1-1") == "record:runs/tape/0003-1-1.jsonl:openai:m"
    assert spec_for(f"replay:{tmp_path}", "0003-1-1") == f"replay:{tmp_path}/0003-1-1.jsonl"
    assert spec_for("replay:one.jsonl", "x") == "replay:one.jsonl"
    assert spec_for("openai:m", "x") == "openai:m"


def test_clarifications(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    path.write_text(
        '{"id": 3, "level": 3, "answers": ["lr = 0.1", "eps = 1e-8"]}\n\n{"id": 4, "answers": "rows first"}\n'
        '{"id": 5, "answers": {"eps": "1e-6"}}\n'
    )
    assert read_clarifications(path) == {
        (3, 3): "- lr = 0.1\n- eps = 1e-8",
        (4, None): "rows first",
        (5, None): {"eps": "1e-6"},
    }
    assert as_text({"eps": "1e-6"}) == "- eps: 1e-6"
    assert answers_to(["smallest size", "the eps of the norm"], {"EPS": "1e-6", "lr": "0.1"}) == {
        "the eps of the norm": "1e-6"
    }
    path.write_text('{"level": 3}\n')
    with pytest.raises(ConfigError):
        read_clarifications(path)


PROGRAM = "#include <cstdio>\n__global__ void k(float* x) { x[0] = 1; }\nint main() { return 0; }\n"


@pytest.mark.network
def test_the_baseline_asks_once_and_hands_in_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = Answer(f"Here it is:\n```cpp\n{PROGRAM}```\nDone.")
    with openai_server(answer) as server:
        provider = ModelSettings(
            base_url=server.url, api_key=SecretStr("sk-local-not-a-real-key-1234"), timeout_s=10.0
        )
        settings = Settings(model="openai:scripted", provider=provider)
        tasks = [t for t in read_tasks(SUITE) if t.id == 4]
        order = Order("suite", tasks, (2,), baseline="one-shot", executors=("cpu",))
        document = Bench(order, settings, tmp_path, report=lambda _line: None).run()
    (row,) = map(json.loads, (tmp_path / "results.jsonl").read_text().splitlines())
    assert (row["status"], row["calls"], row["input_tokens"], row["output_tokens"]) == ("program", 1, 100, 10)
    assert (row["comp"], row["func"]) == (None, None)
    assert "GPU machine" in row["detail"]
    assert (tmp_path / row["program"]).read_text() == PROGRAM
    (told,) = server.requests
    text = json.dumps(told)
    assert tasks[0].level2_prompt in text
    assert "y: float32, shape (64, 320)" in text
    assert "default_rng" not in text
    assert document["overall"]["not_graded"] == 1


def test_workers_are_dealt_out_over_the_executors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    together = threading.Barrier(4, timeout=20)

    def executor(name: str, **_: object) -> SimpleNamespace:
        made.append(name)
        return SimpleNamespace(name=name, close=lambda: None)

    class Spread(Bench):
        def _one(self, row: Row, work: tuple, budget: Budget) -> None:  # type: ignore[type-arg]
            row |= {"status": "verified", "detail": self._executor().name}
            together.wait()

    monkeypatch.setattr("cuda_harness.tools.execute.registry.executor", executor)
    tasks = [t for t in read_tasks(SUITE) if t.id < 4]
    order = Order("suite", tasks, (1,), jobs=4, executors=("cuda:0", "cuda:1"))
    Spread(order, Settings(model="offline"), tmp_path, report=lambda _line: None).run()
    rows = [json.loads(line) for line in (tmp_path / "results.jsonl").read_text().splitlines()]
    assert sorted(r["detail"] for r in rows) == ["cuda:0", "cuda:0", "cuda:1", "cuda:1"]
    assert len(made) == 4

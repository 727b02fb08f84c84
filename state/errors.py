"""The error tree: an exception means that we, the machine or the provider failed.

A kernel that fails is data (`Verdict`, `Failure`), never an exception.

    HarnessError
    |- ConfigError           exit 2: the user changes the input or a setting
    |- ModelError            exit 4: the model provider, its endpoint or its reply
    |  |- ModelUnavailable   no answer: down, rate-limited for too long, wrong key
    |  |- ModelRefused       the provider or the model declined
    |  |- ContextTooLong     the prompt does not fit
    |  `- ReplyInvalid       an answer came, and stayed unusable after the repair turn
    |- BudgetExhausted       a limit would be exceeded by the next step; the run ends in order
    |- ToolchainError        exit 5: this machine lacks something the command needs
    |  |- CompilerUnavailable, ExecutorUnavailable
    |  `- SandboxUnavailable foreign code cannot be contained here
    `- StateError            exit 70: a bug in CUDA-Harness
"""

from typing import ClassVar


class HarnessError(Exception):
    """Something outside the candidate failed; `remedy` says what the user can do."""

    exit_code: ClassVar[int] = 70

    def __init__(self, message: str, *, remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.message}\n  -> {self.remedy}" if self.remedy else self.message


class ConfigError(HarnessError):
    """The request, a file or a setting is not usable as given."""

    exit_code = 2


class ModelError(HarnessError):
    """The model provider failed."""

    exit_code = 4


class ModelUnavailable(ModelError):  # noqa: N818 - names a condition
    """No usable answer came from the endpoint."""


class ModelRefused(ModelError):  # noqa: N818 - names a condition
    """The model or its provider declined to answer."""


class ContextTooLong(ModelError):  # noqa: N818 - names a condition
    """The prompt is longer than the model accepts."""


class ReplyInvalid(ModelError):  # noqa: N818 - names a condition
    """The reply could not be parsed, not even after one repair turn."""


class BudgetExhausted(HarnessError):  # noqa: N818 - names a condition
    """The next step would exceed `limit`; nothing was spent on it."""

    exit_code = 1

    def __init__(self, limit: str, detail: str) -> None:
        super().__init__(f"budget {limit!r} is spent: {detail}", remedy=f"raise --{limit.replace('_', '-')}")
        self.limit = limit
        self.detail = detail


class ToolchainError(HarnessError):
    """A tool of this machine is missing or broken."""

    exit_code = 5


class CompilerUnavailable(ToolchainError):  # noqa: N818 - names a condition
    """NVRTC, its headers or the host compiler cannot be used."""


class ExecutorUnavailable(ToolchainError):  # noqa: N818 - names a condition
    """An executor could not start a run; the candidate was never executed."""

    def __init__(self, executor: str, reason: str, *, remedy: str = "") -> None:
        super().__init__(f"executor {executor!r} is unavailable: {reason}", remedy=remedy)
        self.executor = executor
        self.reason = reason


class SandboxUnavailable(ToolchainError):  # noqa: N818 - names a condition
    """Neither seccomp nor bubblewrap works, so foreign native code is not run."""


class StateError(HarnessError):
    """An invariant of CUDA-Harness itself is broken."""

    exit_code = 70

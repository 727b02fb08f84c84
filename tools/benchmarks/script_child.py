"""Runs one script of a benchmark in an already contained process: `script_child.py SCRIPT [SEED]`.

With a seed, whatever the script seeds with is mixed with it, so that the same generator draws other data.
"""

import random
import sys
from pathlib import Path
from typing import Any

import numpy as np


def mixed(given: Any, secret: int) -> int:  # noqa: ANN401 - whatever a script seeds with
    """Return a seed that depends on both."""
    own = given if isinstance(given, int) else 0
    return (own * 2_654_435_761 + secret) % (1 << 32)


def reseed(secret: int) -> None:
    """Make every usual way to seed NumPy's and Python's generators use `secret` as well."""
    seed, default, python = np.random.seed, np.random.default_rng, random.seed

    class MixedState(np.random.RandomState):
        def __init__(self, given: Any = None) -> None:  # noqa: ANN401 - whatever a script seeds with
            super().__init__(mixed(given, secret))

    np.random.seed = lambda s=None: seed(mixed(s, secret))  # type: ignore[assignment]
    np.random.RandomState = MixedState  # type: ignore[assignment, misc]
    np.random.default_rng = lambda s=None: default(mixed(s, secret))  # type: ignore[assignment]
    random.seed = lambda a=None, version=2: python(mixed(a, secret), version)
    np.random.seed(0)  # noqa: NPY002 - a script may draw without seeding
    random.seed(0)


def main() -> None:
    """Run the script as a program."""
    path = Path(sys.argv[1])
    if len(sys.argv) > 2:
        reseed(int(sys.argv[2]))
    code = compile(path.read_text(encoding="utf-8"), path.name, "exec")
    sys.argv = [path.name]
    exec(code, {"__name__": "__main__", "__file__": path.name})  # noqa: S102 - this process is contained


if __name__ == "__main__":
    main()

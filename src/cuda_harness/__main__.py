"""`python -m cuda_harness` is the `cuda-harness` command."""

from cuda_harness.graph.cli import main

if __name__ == "__main__":
    main()

"""The GPU executor: one disposable child process per job; the parent never makes a CUDA context."""

"""Verified kernels as files of their own: a standalone program, a Python module, a torch package."""

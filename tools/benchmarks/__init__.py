"""Benchmarks of text to CUDA: tasks read, programs graded without holes, figures and tables."""

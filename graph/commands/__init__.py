"""The commands of the shell, one module for each group; heavy modules load inside the functions."""

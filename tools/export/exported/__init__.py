"""The code that every Python export carries: its text is joined into one module, so it needs nothing of ours."""

"""Checks of the IR, and plans made concrete."""

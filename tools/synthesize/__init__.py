"""Data, references and the proof of a suite; isolated from every kernel."""

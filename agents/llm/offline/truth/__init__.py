"""The Synthesizer's two references and the input specification, each derived from the IR's formulas on its own way."""

"""The judge: policy, comparison, the ladder."""

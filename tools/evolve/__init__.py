"""Evolution by rules: strategies, ranking, comparison of candidates, the lineage as a graph."""

"""The graph, its runner and the command line: the only place that names nodes and edges."""

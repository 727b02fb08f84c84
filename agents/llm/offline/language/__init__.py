"""The formula language under its former path: see `tools.formula`."""

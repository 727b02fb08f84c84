"""The run's folder: every finished piece of work is a file, written atomically and synced."""

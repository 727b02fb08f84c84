"""synthesize."""

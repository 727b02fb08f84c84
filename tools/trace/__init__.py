"""What happened in a run: events, and a trace in LangSmith's run schema."""

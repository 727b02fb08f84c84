"""The typed state every role shares; imports pydantic and the standard library only."""

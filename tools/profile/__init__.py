"""Time and what bounds it: statistics, floors, measured ceilings."""

"""GRADIENT as a path and a pace, which decides when the next stage begins and how far along the path it lies."""

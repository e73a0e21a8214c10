"""Benchmarks: comparisons of speed (`speed`), experiments (`studies`) and long checks (`reliability`)."""

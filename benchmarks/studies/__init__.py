"""Experiments whose figures are in the documentation; each module is a command."""

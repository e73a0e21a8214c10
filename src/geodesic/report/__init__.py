"""Figures and tables of runs and comparisons. What is drawn was computed elsewhere; nothing here computes results."""

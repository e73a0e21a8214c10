"""Runs: configurations, one or several at once, comparisons, and who does them."""

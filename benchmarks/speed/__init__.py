"""Timings, most of them next to other libraries; each module is a command."""

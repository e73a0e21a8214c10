"""Long checks: interrupted runs, changed results, invalid arguments; each module is a command."""

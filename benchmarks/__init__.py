"""Side by side with peers, each module a command."""

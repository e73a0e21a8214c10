"""Training: the session that every trainer shares, and the trainers."""

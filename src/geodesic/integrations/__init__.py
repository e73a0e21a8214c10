"""Other libraries' learners in front of the same curricula. Each is imported when it is used."""

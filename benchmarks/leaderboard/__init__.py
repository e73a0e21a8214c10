"""The leaderboard: the recorded results of the fast suite, and the page that shows them."""

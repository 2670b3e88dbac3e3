"""One job, from pending to final."""

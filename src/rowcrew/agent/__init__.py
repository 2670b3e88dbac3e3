"""One agent: a thread, its turns, its tools. Knows nothing of jobs."""

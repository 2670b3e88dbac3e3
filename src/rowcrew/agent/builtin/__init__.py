"""The tools that an agent has from the start."""

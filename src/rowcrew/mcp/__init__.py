"""A door for other agents: the job tools over the Model Context Protocol. It needs the extra `mcp`."""

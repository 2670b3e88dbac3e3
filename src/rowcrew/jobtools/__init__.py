"""The tools with which a model runs jobs. Nothing here knows who carries the calls (an agent, MCP)."""

from rowcrew.jobtools.tools import JOB_TOOLS, JobDefaults, JobTools, JobToolSpec, Listener

__all__ = ["JOB_TOOLS", "JobDefaults", "JobToolSpec", "JobTools", "Listener"]

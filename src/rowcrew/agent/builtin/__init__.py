"""The tools of an agent: the shell and files, inside a sandbox. They know no thread and no job."""

from rowcrew.agent.builtin.files import file_tools
from rowcrew.agent.builtin.patch import apply_patch_tool
from rowcrew.agent.builtin.sandbox import Sandbox, SandboxMode
from rowcrew.agent.builtin.search import search_files_tool
from rowcrew.agent.builtin.shell import shell_tool
from rowcrew.agent.tools import Tool

__all__ = [
    "Sandbox",
    "SandboxMode",
    "apply_patch_tool",
    "builtin_tools",
    "file_tools",
    "search_files_tool",
    "shell_tool",
]


def builtin_tools(sandbox: Sandbox) -> list[Tool]:
    """All that the sandbox's mode allows, in the order in which a model gets them."""
    tools = [shell_tool(sandbox), *file_tools(sandbox), search_files_tool(sandbox)]
    if sandbox.mode is not SandboxMode.READ_ONLY:
        tools.append(apply_patch_tool(sandbox))
    return tools

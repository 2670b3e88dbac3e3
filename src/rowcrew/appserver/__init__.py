"""The door for programs: JSON-RPC in the wire format of Codex's app-server, over stdio and WebSocket."""

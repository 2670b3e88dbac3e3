"""The command line: parse, call the Engine, print. No SQL, no scheduling."""

"""SQLite. The only package that imports apsw."""

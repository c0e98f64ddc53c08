"""The memory book: tables on the shared metadata."""

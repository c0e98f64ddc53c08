"""API tokens and the record of what they read: tables on the shared metadata."""

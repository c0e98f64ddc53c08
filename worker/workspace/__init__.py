"""Mirror caches, hardened checkouts, what changed in them, and publishing edits."""

"""Making GitHub equal to the surface ledger. See ``docs/publishing.md``."""

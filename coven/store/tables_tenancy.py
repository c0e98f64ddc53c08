"""Installations, plans, usage and API tokens: tables on the shared metadata."""

"""Registering the App on GitHub from here, and writing the configuration for it."""

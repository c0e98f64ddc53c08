"""Judging: what of a result may be published, and how."""

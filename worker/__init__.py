"""Execution and egress: one Celery app that runs sessions and publishes surfaces."""

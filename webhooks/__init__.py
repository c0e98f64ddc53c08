"""Ingress: one Flask app that verifies, records and routes GitHub deliveries."""

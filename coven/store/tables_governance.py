"""Rules, their signed head, escalations and the audit chain: tables on the shared metadata."""

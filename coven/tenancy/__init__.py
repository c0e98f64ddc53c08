"""What is decided about tenants: who they are, what they may use. Pure."""

"""The kernel shared by the receiver and the workers. Imports neither of them."""

__version__ = "0.1.0"

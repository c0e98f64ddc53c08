from __future__ import annotations

from flask import Flask

from coven.sandbox.hub import Hub


class Pages:
    def __init__(self, hub: Hub) -> None:
        self.hub = hub

    def register(self, flask: Flask) -> None:
        pass

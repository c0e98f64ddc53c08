"""The reference runtime: a stand-in for ``coven-code --headless`` that does honest small work.

It speaks the real runtime's dialect by default, the strict contract on request, and misbehaves on
request (``familiar.model = "sandbox:<scenario>"``). It uses the standard library only and is
copied beside its wrapper script, so that it runs inside a confined session.
"""

from __future__ import annotations

from pathlib import Path


def install_wrapper(directory: Path) -> Path:
    """Write an executable ``coven-code`` into ``directory`` and return its path."""
    from coven.sandbox.runtime.install import install  # not needed when the runtime itself runs

    return install(directory)


def readable_folders(directory: Path) -> tuple[Path, ...]:
    """What a confined session must be able to read to run the wrapper in ``directory``."""
    from coven.sandbox.runtime.install import needs

    return needs(directory)

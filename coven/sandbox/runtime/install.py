"""Making the reference runtime a program that a worker can start by path."""

from __future__ import annotations

import compileall
import shlex
import shutil
import sys
from pathlib import Path

SOURCE = Path(__file__).parent
_BOOT = "import sys; sys.path.insert(0, {lib!r}); from coven.sandbox.runtime.cli import main; "


def install(directory: Path) -> Path:
    """Copy the package to ``directory/lib`` and write ``directory/coven-code``.

    The copy needs nothing but the interpreter: a confined session sees neither our virtual
    environment nor our source tree. Raises ``OSError``.
    """
    directory = directory.absolute()
    package = directory / "lib" / "coven" / "sandbox" / "runtime"
    package.mkdir(parents=True, exist_ok=True)
    for folder in (package.parent, package.parent.parent):
        (folder / "__init__.py").write_text("", encoding="utf-8")
    for module in SOURCE.glob("*.py"):
        shutil.copyfile(module, package / module.name)
    compileall.compile_dir(str(directory / "lib"), quiet=2)
    boot = _BOOT.format(lib=str(directory / "lib")) + "sys.exit(main(sys.argv[1:]))"
    script = directory / "coven-code"
    script.write_text(
        f'#!/bin/sh\nexec {shlex.quote(str(interpreter()))} -I -S -c {shlex.quote(boot)} "$@"\n',
        encoding="utf-8",
    )
    script.chmod(0o755)
    return script


def interpreter() -> Path:
    """The real interpreter, outside any virtual environment."""
    base = Path(getattr(sys, "_base_executable", sys.executable))
    return base.resolve()


def needs(directory: Path) -> tuple[Path, ...]:
    """Folders that must be readable: the installation and the interpreter's own."""
    return (directory.absolute(), Path(sys.base_prefix).resolve())

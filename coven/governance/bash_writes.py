"""Which files a program writes, by its arguments. Pure; a table, not a promise of completeness.

Programs that are not listed write what they like: that is for the walls of the session.
"""

from __future__ import annotations

from coven.governance import bash_tools
from coven.governance.bash_options import split
from coven.governance.bash_peel import family, name_of
from coven.governance.bash_shapes import (
    CHMOD,
    CREATE,
    DELETE,
    MODIFY,
    RENAME,
    SYMLINK,
    Reader,
    Write,
    each,
    into,
    last,
    local,
    options,
)
from coven.governance.bash_words import Fields, is_known


def writes(argv: Fields) -> list[Write]:
    """The files that ``argv`` writes."""
    if not argv or not is_known(argv[0]):
        return []
    reader = _TABLE.get(name_of(argv[0])) or _TABLE.get(family(argv[0]))
    return reader(argv[1:]) if reader is not None else []


_TABLE: dict[str, Reader] = {
    "tee": each(MODIFY),
    "sponge": each(MODIFY),
    "touch": each(CREATE, "-d -r -t --date --reference"),
    "mkdir": each(CREATE, "-m --mode"),
    "mkfifo": each(CREATE, "-m --mode"),
    "mknod": lambda fields: each(CREATE, "-m --mode")(fields)[:1],
    "rm": each(DELETE),
    "rmdir": each(DELETE),
    "unlink": each(DELETE),
    "shred": each(DELETE, "-n -s --iterations --size"),
    "srm": each(DELETE),
    "truncate": each(MODIFY, "-s -r --size --reference"),
    "fallocate": each(MODIFY, "-l -o --length --offset"),
    "chmod": each(CHMOD, "--reference", 1, "--reference"),
    "chown": each(CHMOD, "--reference --from", 1, "--reference"),
    "chgrp": each(CHMOD, "--reference", 1, "--reference"),
    "chattr": each(CHMOD, "", 1),
    "setfacl": each(CHMOD, "-m -x -M -X", 0),
    "cp": into(CREATE, ""),
    "gcp": into(CREATE, ""),
    "mv": into(RENAME, ""),
    "ln": into(SYMLINK, ""),
    "link": last(CREATE),
    "install": bash_tools.install,
    "rsync": local("-e --rsh --exclude --include --filter -f --files-from --log-file"),
    "scp": local("-P -i -o -F -c -l -S -J"),
    "dd": bash_tools.dd,
    "sed": bash_tools.sed,
    "gsed": bash_tools.sed,
    "perl": bash_tools.perl,
    "ruby": bash_tools.perl,
    "awk": bash_tools.awk,
    "gawk": bash_tools.awk,
    "mawk": bash_tools.awk,
    "sort": bash_tools.sort,
    "shuf": bash_tools.sort,
    "uniq": last(CREATE, "-f -s -w", 2),
    "tar": bash_tools.tar,
    "bsdtar": bash_tools.tar,
    "unzip": bash_tools.unzip,
    "7z": options(CREATE, "-o"),
    "zip": lambda fields: [Write(path, CREATE) for path in split(fields, "-i -x -b").operands[:1]],
    "cpio": lambda fields: [Write(".", CREATE)] if split(fields, "-D -F").has("-i", "-p") else [],
    "gzip": bash_tools.compress,
    "gunzip": bash_tools.compress,
    "bzip2": bash_tools.compress,
    "bunzip2": bash_tools.compress,
    "xz": bash_tools.compress,
    "unxz": bash_tools.compress,
    "zstd": bash_tools.compress,
    "split": last(CREATE, "-a -b -C -l -n --bytes --lines", 2),
    "csplit": options(CREATE, "-f --prefix"),
    "curl": bash_tools.curl,
    "wget": bash_tools.wget,
    "aria2c": options(CREATE, "-d -o --dir --out"),
    "find": bash_tools.find,
    "patch": bash_tools.patch,
    "mktemp": options(CREATE, "-p --tmpdir"),
    "ed": last(MODIFY),
    "ex": last(MODIFY, "-c"),
    "vi": last(MODIFY, "-c"),
    "vim": last(MODIFY, "-c"),
    "python": bash_tools.python,
    "pip": options(CREATE, "-t --target --prefix --root -d --dest"),
    "npm": options(CREATE, "--prefix --pack-destination --cache"),
    "cargo": options(CREATE, "--target-dir --root --out-dir --artifact-dir"),
    "gpg": options(CREATE, "-o --output"),
    "strace": options(CREATE, "-o"),
    "ltrace": options(CREATE, "-o"),
    "time": options(CREATE, "-o --output"),
    "perf": options(CREATE, "-o --output"),
    "make": options(CREATE, "-C --directory"),
    "virtualenv": each(CREATE, "-p --python --prompt"),
    "ssh-keygen": options(CREATE, "-f"),
    "openssl": options(CREATE, "-out -keyout"),
    "gcc": options(CREATE, "-o"),
    "cc": options(CREATE, "-o"),
    "g++": options(CREATE, "-o"),
    "clang": options(CREATE, "-o"),
    "rustc": options(CREATE, "-o --out-dir"),
    "go": options(CREATE, "-o"),
    "ld": options(CREATE, "-o"),
    "pandoc": options(CREATE, "-o --output"),
    "yq": lambda fields: (
        [Write(path, MODIFY) for path in split(fields).operands[1:]]
        if split(fields).has("-i", "--inplace")
        else []
    ),
    "script": last(CREATE, "-c -E -I -o -O"),
    "sqlite3": lambda fields: [Write(path, MODIFY) for path in split(fields).operands[:1]],
    "objcopy": last(CREATE, "-O -I", 2),
    "strip": options(CREATE, "-o"),
    "xxd": last(CREATE, "-s -l -c -g", 2),
    "iconv": options(CREATE, "-o"),
    "mount": last(MODIFY, "-t -o", 1),
    "umount": last(MODIFY, "-t", 1),
    "mkfs": last(MODIFY, "-t"),
    "mkswap": last(MODIFY),
    "wipefs": each(MODIFY, "-t -o"),
}

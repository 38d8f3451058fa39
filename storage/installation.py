"""How this Bascule was installed, and so how a part of it is that is missing: an extra of the package.

A Debian package has no extras. What they add is installed beside it, in a folder for the administrator's own that only the commands
look into which need one; it stays when the package is upgraded.
"""

from __future__ import annotations

import re
import shlex
import sys
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

PACKAGE_LIST = Path("/var/lib/dpkg/info/bascule.list")  # the files of the Debian package
BESIDE_PACKAGE = "/usr/local/lib/bascule"
_ROOT = Path(__file__).resolve().parents[1]


def find_extras() -> None:
    """Let be imported what was installed beside the Debian package."""
    if _is_package() and BESIDE_PACKAGE not in sys.path:
        sys.path.append(BESIDE_PACKAGE)


def how_to_install(extra: str) -> str:
    """The command that adds ``extra`` where this program runs, by the means that installed it."""
    if _is_package():
        libraries = shlex.join(_libraries(extra))
        return (
            f"apt-get install --no-install-recommends python3-pip && python3 -m pip install --target {BESIDE_PACKAGE} {libraries}"
        )
    if (_ROOT / "setup.cfg").exists():
        return f"{shlex.quote(sys.executable)} -m pip install --editable {shlex.quote(f'{_ROOT}[{extra}]')}"
    if "pipx" in Path(sys.prefix).parts:
        return f"pipx runpip bascule install 'bascule[{extra}]'"
    if _is_by_uv():
        return f"uv pip install --python {shlex.quote(sys.executable)} 'bascule[{extra}]'"
    return f"{shlex.quote(sys.executable)} -m pip install 'bascule[{extra}]'"


def _is_package() -> bool:
    """Whether it is the Debian package that runs, and not a wheel in a folder of that name."""
    try:
        return f"{sys.prefix}/pyvenv.cfg" in PACKAGE_LIST.read_text(encoding="utf-8").splitlines()
    except OSError:
        return False


def _is_by_uv() -> bool:
    """Whether uv made this environment, which has no pip then."""
    try:
        return "\nuv = " in Path(sys.prefix, "pyvenv.cfg").read_text(encoding="utf-8")
    except OSError:
        return False


def _libraries(extra: str) -> list[str]:
    """The requirements that ``extra`` adds, as pip takes them."""
    try:
        wanted = requires("bascule") or []
    except PackageNotFoundError:
        return [f"bascule[{extra}]"]
    mark = re.compile(rf"""(.+?) *; *extra == ["']{re.escape(extra)}["']""")
    return [found[1] for line in wanted if (found := mark.fullmatch(line))]

"""A stand-in for CANN: one small library that satisfies the dynamic linker, so that MindSpore's Ascend plugin loads without it.

MindSpore's dry run (MS_SIMULATION_LEVEL) replaces every call to the device and to HCCL by its own, but its plugin is linked
against CANN's libraries and does not load where they are missing. Here a library is made that has all symbols the installed
plugin asks for: nearly all are one function that answers 0; answers.cpp has the few that are really looked at. Nothing of
MindSpore is changed.

It is made once for each build of MindSpore, into the user's cache, by the machine's own C++ compiler.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from filelock import FileLock

from mindrecipe.data.shared import shared_folder, usable
from mindrecipe.errors import UserError
from mindrecipe.simulate import symbols

#: builds of MindSpore whose dry run has been seen to work with this stand-in: version, machine -> what its plugin asks for
KNOWN = {("2.9.0", "x86_64"): "76a13544959cf9cc"}
#: a release of CANN that MindSpore 2.9 accepts (its AscendEnvChecker reads these two files)
_CANN_VERSION = "9.0.0"
_TOOLS = ("g++", "nm", "readelf")
_LIBRARY = "libmindrecipe_standin.so"
_SOURCE = "answers.cpp"
_PATIENCE, _PATIENCE_SOURCE = "libmindrecipe_patience.so", "patience.cpp"
_PATIENT = "_ZN9mindspore6device6ascend27SimuFuncIaclrtProcessReportIiEET_i"
_NONE_CALLS = "mindrecipe_answer_zero"
_FLAGS = ("-std=c++17", "-O1", "-fPIC", "-D_GLIBCXX_USE_CXX11_ABI=0")
_INTERNAL = ("_ZNSt", "_ZSt", "_ZTI", "_ZTS", "_ZTV", "_ZN9__gnu_cxx")


@dataclass(frozen=True, slots=True)
class StandIn:
    """A stand-in that is ready: ``root`` takes CANN's place."""

    root: Path

    def environment(self, inherited_library_path: str | None = None) -> dict[str, str]:
        """What a process needs to find it. PYTHONPATH entries are in :attr:`python`, since others share that variable."""
        libraries = self.root / "lib64"
        return {
            "ASCEND_HOME_PATH": str(self.root),
            "ASCEND_OPP_PATH": str(self.root / "opp"),
            "LD_LIBRARY_PATH": f"{libraries}{os.pathsep}{inherited_library_path}" if inherited_library_path else str(libraries),
            "LD_PRELOAD": str(libraries / _PATIENCE),
        }

    @property
    def python(self) -> tuple[str, ...]:
        """Folders for PYTHONPATH: MindSpore warns where CANN's Python packages are not on it."""
        return str(self.root / "python"), str(self.root / "opp/built-in/op_impl/ai_core/tbe")


def stand_in(cache: Path, on_make: Callable[[], None] = lambda: None) -> StandIn:
    """The stand-in for the installed MindSpore: from ``cache``, else made now (about five seconds), of which ``on_make`` tells.

    UserError where MindSpore is of an unknown build, or the compiler and its tools are missing.
    """
    package, version = installed_mindspore()
    key = (version, platform.machine())
    if key not in KNOWN:
        known = ", ".join(f"{release} on {machine}" for release, machine in KNOWN)
        raise UserError(
            f"this machine has mindspore {version} on {platform.machine()}, and simulation is known to work with {known} only",
            mend="pip install mindspore==2.9.0; or on a machine with CANN: msrun --sim_level=1 with the exported YAML",
        )
    # `cann` is looked for in the path by MindSpore's check of its environment
    place = ("simulation", f"mindspore-{version}-{_own_digest()}")
    root = cache.joinpath(*place, "cann")
    if not root.exists():
        with usable(cache), FileLock(shared_folder(cache, *place) / "making.lock", mode=0o666):
            if not root.exists():
                on_make()
                _make(root, package, key)
    return StandIn(root)


def installed_mindspore() -> tuple[Path, str]:
    """Folder and version of the installed MindSpore, without importing it."""
    found = importlib.util.find_spec("mindspore")
    if found is None or not found.submodule_search_locations:
        raise UserError("mindspore is not installed, and simulation compiles with it", mend="pip install mindspore==2.9.0")
    return Path(found.submodule_search_locations[0]), importlib.metadata.version("mindspore")


def require_tools() -> None:
    """UserError where the C++ compiler, or a tool that comes with it, is missing."""
    missing = [tool for tool in _TOOLS if shutil.which(tool) is None]
    if missing:
        raise UserError(
            f"simulation makes a small library for MindSpore once, and this machine has no {', '.join(missing)}",
            mend="apt-get install g++ (Debian, Ubuntu) or dnf install gcc-c++ (openEuler, Fedora); it is needed once",
        )


def _own_digest() -> str:
    """Changes whenever what is made would."""
    import hashlib

    sources = [files("mindrecipe.simulate").joinpath(name).read_bytes() for name in (_SOURCE, _PATIENCE_SOURCE, "standin.py", "symbols.py")]
    return hashlib.sha256(b"".join(sources)).hexdigest()[:12]


def _make(root: Path, package: Path, key: tuple[str, str]) -> None:
    """Make the folder beside its place and rename it into it: it is whole or not there."""
    require_tools()
    wanted = symbols.wanted(package)
    if wanted.digest != KNOWN[key]:
        raise UserError(
            f"the Ascend plugin of this mindspore {key[0]} asks CANN for other symbols ({wanted.digest}) than the build that is known "
            f"({KNOWN[key]}): a dry run with it could be wrong",
            where=str(package / "lib/plugin"),
            mend=f"pip install --force-reinstall mindspore=={key[0]}",
        )
    with tempfile.TemporaryDirectory(dir=root.parent, prefix=".making-") as scratch:
        fresh = Path(scratch) / "cann"
        for folder in ("lib64", "compiler", "python/hccl", "opp/built-in/op_impl/ai_core/tbe"):
            (fresh / folder).mkdir(parents=True)
        (fresh / "compiler/version.info").write_text(f"Version={_CANN_VERSION}\n")
        (fresh / "python/hccl/__init__.py").touch()
        (fresh / "python/hccl/sys_version.py").write_text(f'__sys_version__ = "{_CANN_VERSION}"\n')
        _compile(wanted, fresh / "lib64" / _LIBRARY)
        _compile_patience(package, fresh / "lib64" / _PATIENCE)
        for soname in wanted.sonames:
            (fresh / "lib64" / soname).symlink_to(_LIBRARY)
        os.rename(fresh, root)


def _compile(wanted: symbols.Wanted, library: Path) -> None:
    work = library.parent.parent.parent
    answers = work / "answers.o"
    _run("g++", *_FLAGS, "-c", str(files("mindrecipe.simulate").joinpath(_SOURCE)), "-o", str(answers))
    ours = _answered(answers)
    _check_names(ours, wanted)
    source = work / "names.cpp"
    source.write_text(_names([name for name in (*wanted.linked, *wanted.named) if name not in ours]))
    _run("g++", *_FLAGS, "-shared", "-Wl,-z,defs", f"-Wl,-soname,{_LIBRARY}", "-o", str(library), str(source), str(answers))
    have = {line.split()[-1] for line in _run("nm", "-D", "--defined-only", str(library)).splitlines()}
    lost = [name for name in wanted.linked if name not in have]
    if lost:
        raise RuntimeError(f"the stand-in lacks {len(lost)} symbols that MindSpore's plugin asks for, the first is {lost[0]}")


def _compile_patience(package: Path, library: Path) -> None:
    """The library that is loaded before MindSpore: its one function must be one that MindSpore looks up and has itself."""
    _run("g++", *_FLAGS, "-shared", str(files("mindrecipe.simulate").joinpath(_PATIENCE_SOURCE)), "-o", str(library))
    theirs = package / "lib/plugin/ascend/libmindspore_ascend_res_manager.so"
    for path in (library, theirs):
        if _PATIENT not in _run("nm", "-D", "--defined-only", str(path)):
            raise RuntimeError(f"{path.name} has no {_PATIENT}: a thread of MindSpore would spin")


def _answered(answers: Path) -> set[str]:
    lines = (line.split() for line in _run("nm", "--defined-only", str(answers)).splitlines())
    return {name for _, kind, name in lines if kind in "TW" and not name.startswith(_INTERNAL)}


def _check_names(ours: set[str], wanted: symbols.Wanted) -> None:
    """The C++ ABI is right when the names of what was written by hand are names that the plugin asks for."""
    asked = {*wanted.linked, *wanted.named}
    strange = {name for name in ours - asked if name.startswith("_ZN2ge15OperatorFactory") or not name.startswith("_Z")}
    strange -= {_NONE_CALLS}
    if strange:
        raise RuntimeError(f"{_SOURCE} answers {', '.join(sorted(strange))}, which MindSpore's plugin does not ask for: another C++ ABI?")


def _names(names: list[str]) -> str:
    """C++ that gives every name: tables of virtual functions are zeroes, everything else is the one function that answers 0."""
    lines = [f'extern "C" long {_NONE_CALLS}() {{ return 0; }}']
    for name in names:
        if name.startswith(("_ZTV", "_ZTI", "_ZTS")):
            lines.append(f'__asm__(".comm {name},1024,16");')
        else:
            lines.append(f'__asm__(".globl {name}\\n.type {name},@function\\n.set {name},{_NONE_CALLS}");')
    return "\n".join(lines) + "\n"


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command[:1])} failed: {done.stderr.strip()[:2000]}")
    return done.stdout

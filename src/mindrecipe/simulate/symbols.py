"""What MindSpore's Ascend plugin asks of CANN: library names and symbols, read from the installed files with binutils."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

#: the libraries that MindSpore opens when the device is Ascend; what they need follows from them. Relative to mindspore/lib/plugin
ROOTS = (
    "libmindspore_ascend.so.2",
    "libmindspore_ops_ascend.so",
    "ascend/libmindspore_graph_ir.so",
    "ascend/libhccl_plugin.so",
    "ascend/libmindspore_internal_kernels.so",
    "ascend/libmindspore_atb_kernels.so",
    "ascend/libmindspore_pyboost_atb_kernels.so",
    "ascend/liblowlatency_collective.so",
)
#: folders those libraries look in, relative to mindspore/lib
_FOLDERS = (
    "plugin",
    "plugin/ascend",
    "",
    "plugin/ascend/ms_kernels_internal/internal_kernel/lib",
    "plugin/ascend/ms_kernels_internal/asdops/lib",
    "plugin/ascend/ms_kernels_symmetric_memory/shmem/shmem/lib",
    "plugin/ascend/ms_kernels_symmetric_memory/shmem/memfabric_hybrid/lib",
)
#: libraries of CANN that MindSpore opens while it runs, and asks for functions by name
OPENED = (
    "libhccl.so",
    "libascendcl.so",
    "libacl_op_compiler.so",
    "libacl_tdt_channel.so",
    "libacl_tdt_queue.so",
    "libmsprofiler.so",
    "libprofapi.so",
    "libopapi.so",
    "libnnopbase.so",
    "libruntime.so",
    "libascend_hal.so",
    "libascend_ml.so",
    "libge_runner.so",
    "libgraph.so",
)
#: the libraries that open them, relative to mindspore/lib; the names they ask for stand in them as texts
_OPENERS = (
    "plugin/libmindspore_ascend.so.2",
    "plugin/libmindspore_ops_ascend.so",
    "plugin/ascend/libmindspore_ascend_res_manager.so",
    "plugin/ascend/libd_collective.so",
    "libmindspore_ms_backend.so",
    "libmindspore_pyboost.so",
)
_NAME_IN_TEXT = re.compile(rb"(?<=\x00)(?:acl(?:rt|op|mdl|tdt|prof|nn|Rt|Sys)?[A-Z]|[Hh]ccl[A-Z]|Msprof|rt[A-Z]|hal[A-Z])\w{1,120}(?=\x00)")


@dataclass(frozen=True, slots=True)
class Wanted:
    """``linked``: symbols the dynamic linker must find, ``named``: functions asked for by name; ``sonames``: where they are sought."""

    linked: tuple[str, ...]
    named: tuple[str, ...]
    sonames: tuple[str, ...]

    @property
    def digest(self) -> str:
        """A hash of what the linker must find: it changes with every build of MindSpore that asks for something else."""
        return hashlib.sha256("\n".join([*self.sonames, *self.linked]).encode()).hexdigest()[:16]


def wanted(mindspore: Path) -> Wanted:
    """Read what the plugin in ``mindspore`` (the installed package) wants and no installed library has."""
    lib = mindspore / "lib"
    found, missing = _closure(lib)
    defined = {symbol for path in [*found, *_of_this_python(mindspore)] for symbol, _ in _symbols(path, "--defined-only")}
    defined |= {symbol for path in _system_libraries(found) for symbol, _ in _symbols(path, "--defined-only")}
    undefined = {symbol for path in found for symbol, kind in _symbols(path, "--undefined-only") if kind == "U"}
    linked = sorted(symbol for symbol in undefined - defined if not symbol.startswith(("Py", "_Py", "_c_")))
    return Wanted(tuple(linked), tuple(sorted(_named(lib) - defined - set(linked))), tuple(sorted({*missing, *OPENED})))


def _closure(lib: Path) -> tuple[list[Path], set[str]]:
    """The plugin's libraries with all they need of mindspore's own, and the names that are nowhere."""
    todo = [lib / "plugin" / name for name in ROOTS]
    found: dict[Path, None] = {}
    missing: set[str] = set()
    while todo:
        path = todo.pop()
        if path in found:
            continue
        found[path] = None
        for name in re.findall(r"\(NEEDED\).*\[(.*)\]", _run("readelf", "-dW", str(path))):
            here = next((lib / folder / name for folder in _FOLDERS if (lib / folder / name).exists()), None)
            if here is not None:
                todo.append(here)
            elif not _is_systems(name):
                missing.add(name)
    return list(found), missing


def _is_systems(name: str) -> bool:
    return _system_library(name) is not None or name.startswith("ld-linux")


def _system_library(name: str) -> Path | None:
    """Where the compiler finds a library of the system."""
    path = Path(_run("g++", f"-print-file-name={name}").strip())
    return path if path.is_absolute() and path.exists() else None


def _system_libraries(found: Iterable[Path]) -> Iterator[Path]:
    names = {name for path in found for name in re.findall(r"\(NEEDED\).*\[(.*)\]", _run("readelf", "-dW", str(path)))}
    for name in sorted(names):
        path = _system_library(name)
        if path is not None:
            yield path


def _of_this_python(mindspore: Path) -> list[Path]:
    """The interpreter, its shared library and mindspore's extension module: they are in the process before the plugin."""
    interpreter = Path(sys.executable).resolve()
    shared = sorted((Path(sysconfig.get_config_var("LIBDIR") or interpreter.parent)).glob("libpython3*.so*"))
    return [interpreter, *shared[:1], *sorted(mindspore.glob("_c_expression*.so"))]


def _named(lib: Path) -> set[str]:
    names: set[str] = set()
    for opener in _OPENERS:
        names |= {name.decode() for name in _NAME_IN_TEXT.findall((lib / opener).read_bytes())}
    return names | {f"{name}GetWorkspaceSize" for name in names if name.startswith("aclnn") and not name.endswith("GetWorkspaceSize")}


def _symbols(path: Path, which: str) -> Iterator[tuple[str, str]]:
    """(name without version, kind) of the dynamic symbols of a library."""
    for line in _run("nm", "-D", which, str(path)).splitlines():
        *_, kind, name = line.split()
        yield name.partition("@")[0], kind


def _run(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout

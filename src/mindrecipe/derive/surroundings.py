"""What a run names and this host may have or lack: files, folders, modules, ports, host names, room on disks.

Rules are pure and ask an object of this kind, which knows everything (:class:`Unknown`, for examples and tests) or looks
(:class:`Here`).
"""

from __future__ import annotations

import errno
import glob
import importlib.machinery
import importlib.util
import ipaddress
import os
import shutil
import socket
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path


class Unknown:
    """A host that is not looked at: all is well there."""

    def has(self, pattern: str) -> bool:
        """Whether there is a file or folder of that name, or one that the glob matches."""
        return True

    def has_module(self, name: str) -> bool:
        """Whether a rank started here would find the Python module (nothing is imported to find out)."""
        return True

    def listens(self, port: int) -> bool:
        """Whether a process of this host listens on the TCP port."""
        return False

    def knows(self, host: str) -> bool:
        """Whether the host name has an address."""
        return True

    def room(self, folder: str) -> int | None:
        """Free bytes on the disk of a folder, which need not exist yet; None: not known."""
        return None


class Here(Unknown):
    """This host, as it is now."""

    def has(self, pattern: str) -> bool:
        path = os.path.expanduser(pattern)
        return os.path.lexists(path) or (glob.has_magic(path) and next(glob.iglob(path, recursive=True), None) is not None)

    def has_module(self, name: str) -> bool:
        top, *parts = name.split(".")
        found = top_module(top)
        for part in parts:
            inside = None if found is None else found.submodule_search_locations
            found = None if inside is None else importlib.machinery.PathFinder.find_spec(part, list(inside))
        return found is not None

    def listens(self, port: int) -> bool:
        return is_bound(port)

    def knows(self, host: str) -> bool:
        try:
            resolve(host)
        except OSError:
            return False
        return True

    def room(self, folder: str) -> int | None:
        return shutil.disk_usage(existing_parent(Path(folder).expanduser())).free


def top_module(name: str) -> ModuleSpec | None:
    """What an import of the module, of no package, would find from this folder; nothing is imported. None: nothing."""
    folder = os.getcwd()
    sys.path.append(folder)  # where worker/environment.py puts it
    try:
        return importlib.util.find_spec(name)
    except ValueError:  # no name, or one of this process alone (__main__)
        return None
    finally:
        sys.path.remove(folder)


def existing_parent(path: Path) -> Path:
    """The nearest folder of a path that exists."""
    return next(folder for folder in (path.absolute(), *path.absolute().parents) if folder.is_dir())


def in_the_way(path: Path) -> str | None:
    """What keeps folders from being made on the way to ``path``, as words; None: nothing."""
    path = path.absolute()
    folder = existing_parent(path)
    next_one = folder / path.relative_to(folder).parts[0] if path != folder else folder
    if next_one.is_dir() or not os.path.lexists(next_one):
        return None
    what = f"a link to {os.readlink(next_one)}, which is not there" if next_one.is_symlink() and not next_one.exists() else "no folder"
    return f"{next_one} is {what}"


def resolve(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """The address that msrun will take a host name for. Raises OSError where there is none."""
    found = socket.getaddrinfo(host.strip("[]"), None, socket.AF_UNSPEC, socket.SOCK_STREAM)[0][4][0]
    return ipaddress.ip_address(str(found).split("%")[0])


def is_bound(port: int) -> bool:
    """Whether some process of this host listens on the port, on any address. Remains of closed connections don't count."""
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            probe = socket.socket(family, socket.SOCK_STREAM)
        except OSError:  # the host has no IPv6
            continue
        with probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            try:
                probe.bind(("", port))
            except OSError as error:
                if family == socket.AF_INET6 and error.errno not in (errno.EADDRINUSE, errno.EACCES):
                    continue  # IPv6 is compiled in, but switched off
                return True
    return False

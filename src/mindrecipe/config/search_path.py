"""Where Hydra looks for options: --config-dir, then the user's ./conf and ./recipes, then ours.

The folder ``recipes/`` is seen by Hydra as the config group ``recipe``: a recipe is one file, at home in a flat folder,
and `+recipe=NAME` reads better than `+recipes=NAME`.
"""

from __future__ import annotations

import builtins
import os
from pathlib import Path

from hydra._internal.core_plugins.file_config_source import FileConfigSource
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.object_type import ObjectType
from hydra.core.plugins import Plugins
from hydra.plugins.config_source import ConfigResult
from hydra.plugins.search_path_plugin import SearchPathPlugin

from mindrecipe.paths import shipped

GROUP = "recipe"
_extra: list[Path] = []


def use_config_dir(folder: Path | None) -> None:
    """Search ``folder`` (of --config-dir) before everything else; None: no such folder."""
    _extra[:] = [folder] if folder is not None else []


def config_dir() -> Path | None:
    """The folder of --config-dir."""
    return _extra[0] if _extra else None


def conf_folders() -> list[Path]:
    """Folders with config groups, first found wins."""
    return _distinct([*_extra, Path.cwd() / "conf", shipped("conf")])


def recipe_folders() -> list[Path]:
    """Folders with recipes, first found wins."""
    return _distinct([*(folder / "recipes" for folder in _extra), Path.cwd() / "recipes", shipped("recipes")])


def find_file(config_path: str) -> Path | None:
    """The YAML file behind an entry of Hydra's defaults list, e.g. "model/llama2_7b" or "recipe/tiny"."""
    group, _, rest = config_path.partition("/")
    folders, name = (recipe_folders(), rest) if group == GROUP and rest else (conf_folders(), config_path)
    for folder in folders:
        path = folder / f"{name.removesuffix('.yaml')}.yaml"
        try:
            if path.is_file():
                return path
        except OSError:
            continue  # a name that no file can have, e.g. of 3000 letters
    return None


def _distinct(folders: list[Path]) -> list[Path]:
    return list(dict.fromkeys(folder.resolve() for folder in folders if folder.is_dir()))


class RecipeSource(FileConfigSource):
    """Shows the files of a recipes folder as the group ``recipe``."""

    @staticmethod
    def scheme() -> str:
        return "recipes"

    def load_config(self, config_path: str) -> ConfigResult:
        """A recipe is about the whole run: its `# @package _global_` line may be left out."""
        loaded = super().load_config(self._inside(config_path))
        loaded.header["package"] = loaded.header.get("package") or "_global_"
        return loaded

    def available(self) -> bool:
        return os.path.isdir(self.path)

    def is_group(self, config_path: str) -> bool:
        return config_path == "" or (self._is_ours(config_path) and super().is_group(self._inside(config_path)))

    def is_config(self, config_path: str) -> bool:
        return self._is_ours(config_path) and super().is_config(self._inside(config_path))

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:
        if config_path == "":
            return [] if results_filter == ObjectType.CONFIG else [GROUP]
        return super().list(self._inside(config_path), results_filter)

    def _list_add_result(self, files: builtins.list[str], file_path: str, file_name: str, results_filter: ObjectType | None) -> None:
        # the parent asks is_group()/is_config() about file_path: tell it the path as Hydra sees it
        super()._list_add_result(files, f"{GROUP}/{file_path}".replace("//", "/"), file_name, results_filter)

    @staticmethod
    def _is_ours(config_path: str) -> bool:
        return config_path == GROUP or config_path.startswith(f"{GROUP}/")

    @staticmethod
    def _inside(config_path: str) -> str:
        return config_path[len(GROUP) :].lstrip("/")


class MindrecipeSearchPath(SearchPathPlugin):
    """Puts our folders on Hydra's search path, users' first."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        for folder in reversed(conf_folders()):
            search_path.prepend(provider="mindrecipe", path=f"file://{folder}")
        for folder in recipe_folders():
            search_path.append(provider="mindrecipe", path=f"recipes://{folder}")


def register() -> None:
    """Make Hydra know our sources; idempotent."""
    plugins = Plugins.instance()
    plugins.register(RecipeSource)
    plugins.register(MindrecipeSearchPath)

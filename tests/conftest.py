"""What all tests share: a working directory of their own, and the command line run in this process."""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from said import Said

# machines differ in speed; the fixture `here` may well be shared by the examples of one test; a commit passes or fails by what is in it:
# the same examples each time. New ones are looked for on purpose: pytest --hypothesis-profile=deep
_ANY = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
settings.register_profile("house", deadline=None, derandomize=True, suppress_health_check=_ANY)
settings.register_profile("deep", deadline=None, max_examples=2000, suppress_health_check=_ANY)
settings.load_profile("house")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with real trainings first: a long one at the end would leave the other process (scripts/test.sh) without work.

    Last what imports mindspore into this very process: its threads and its environment are nothing for tests that fork.
    """
    long = {item.path for item in items if item.get_closest_marker("e2e")}
    inside = {item.path for item in items if item.get_closest_marker("mindspore_inside")}
    items.sort(key=lambda item: 2 if item.path in inside else item.path not in long)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty working directory, without ./conf and ./recipes, and no --config-dir."""
    from mindrecipe.config.search_path import use_config_dir

    monkeypatch.chdir(tmp_path)
    yield tmp_path
    use_config_dir(None)


@pytest.fixture
def mindrecipe(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Said]:
    """`mindrecipe <words>` in this process; an exception that would be a traceback is raised."""

    def run(*words: str) -> Said:
        from mindrecipe.cli.main import main

        monkeypatch.setattr(sys, "argv", ["mindrecipe", *words])
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), pytest.raises(SystemExit) as ended:
            main()
        code = ended.value.code
        assert code is None or isinstance(code, int)
        return Said(code or 0, out.getvalue(), err.getvalue())

    return run


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Built data sets of this session, in a folder of its own: what an earlier session left can't hide a fault."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MINDRECIPE_CACHE", str(folder))
        yield folder

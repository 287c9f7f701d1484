"""A cache of several users: what one makes there the others can use, and where they can't, it is told. As root: with real users."""

from __future__ import annotations

import codecs
import errno
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from corpora import make_spec, write_texts

from mindrecipe.data import bpe, build, cache, shared
from mindrecipe.data.digests import digests_of
from mindrecipe.data.shared import put_text, shared_folder, usable
from mindrecipe.data.sources import stat_files
from mindrecipe.data.split import Corpus
from mindrecipe.errors import UserError

KEY = "0" * 32
real_users = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be two other users")


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that any user can reach: pytest's own are its user's alone."""
    folder = Path(tempfile.mkdtemp(prefix="mindrecipe-test-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def as_user(uid: int, work: Callable[[], object], umask: int = 0o022) -> str:
    """Do ``work`` as another user, of group 4000; what went wrong, "" if nothing did."""
    codecs.lookup("ascii")  # Python reads it from its own folder, which may be root's alone
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        told = ""
        try:
            os.setgroups([4000])
            os.setgid(4000)
            os.setuid(uid)
            os.umask(umask)
            work()
        except BaseException as error:
            told = f"{type(error).__name__}: {error}"
        os.write(writer, told.encode()[:4096])
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        told = pipe.read()
    os.waitpid(child, 0)
    return told


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tokenizer is "trained" at once, and rows are not built: what is left of building is the use of the cache."""
    monkeypatch.setattr(bpe, "train_bpe", lambda spec, texts: "{}")


def use(folder: Path, files: list[str], key: str = KEY) -> None:
    """What building does in a cache, but for the rows."""
    spec = make_spec(folder, files=tuple(files), tokenizer="bpe")
    found = stat_files(files)
    corpus = Corpus(tuple(found), (), 0.0, digests_of(found, str(folder)))
    with usable(folder), cache.locked(str(folder), key, lambda: None):
        assert bpe.cached_bpe(spec, corpus, lambda read, total: None) == "{}"
        with cache.working_folder(str(folder), key):
            cache.remove_leftovers(str(folder), key)


@real_users
@pytest.mark.usefixtures("trained")
@pytest.mark.parametrize("mode", [0o1777, 0o777, 0o2775])
@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_two_users_build_in_one_cache(place: Path, mode: int, umask: int) -> None:
    folder = place / "cache"
    folder.mkdir()
    os.chown(folder, 0, 4000)
    folder.chmod(mode)
    files = write_texts(place / "data", 2)
    for path in files:
        os.utime(path, (1, 1))

    use(place / "mine", files)  # Python's own modules are imported now: they may be root's alone
    # the same lock and tokenizer, then another
    for uid, words in ((4001, (files[:1], KEY)), (4002, (files[:1], KEY)), (4002, (files[1:], "1" * 32)), (4003, (files[1:], KEY))):
        assert as_user(uid, lambda words=words: use(folder, *words), umask) == ""
    assert {stat.S_IMODE((folder / name).stat().st_mode) for name in ("locks", "tokenizers", "digests")} == {mode}
    assert all(memo.stat().st_uid in (4001, 4002) and memo.stat().st_mode & 0o040 for memo in (folder / "digests").iterdir())


@real_users
@pytest.mark.usefixtures("trained")
@pytest.mark.parametrize("name", ["locks", "tokenizers"])
def test_what_an_older_release_kept_to_its_owner_is_told(place: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(build, "_build_rows", lambda spec, corpus, folder, report: shared_folder(spec.cache_dir, "tokenizers"))
    folder = place / "cache"
    folder.mkdir()
    folder.chmod(0o1777)
    (folder / name).mkdir(mode=0o755)
    spec = make_spec(folder, files=tuple(write_texts(place / "data", 20)))
    use(place / "mine", list(spec.files))
    told = as_user(4002, lambda: build.build_entry(spec, lambda *given: None))
    assert told.startswith(f"UserError: the data cache {folder} is not this user's to use: {folder / name}: Permission denied")
    assert f"chmod -R a+rwX {folder / name} (by its owner), or dataset.cache_dir=" in told
    assert not list(folder.glob("*.building-*"))


def test_what_is_not_permitted_elsewhere_is_no_matter_of_the_cache(tmp_path: Path) -> None:
    fault = PermissionError(errno.EACCES, "Permission denied", f"{tmp_path}/cache2/x")
    with pytest.raises(PermissionError), usable(tmp_path / "cache"):
        raise fault
    fault.filename = f"{tmp_path}/cache/a b/x"
    with pytest.raises(UserError) as told, usable(tmp_path / "cache"):
        raise fault
    assert told.value.exit_code == 2 and f"chmod -R a+rwX '{tmp_path}/cache/a b' " in str(told.value.mend)


@pytest.mark.parametrize("mode", [0o700, 0o755, 0o1777])
def test_folders_have_the_cache_s_mode_and_files_can_be_read_by_those_who_see_it(tmp_path: Path, mode: int) -> None:
    tmp_path.chmod(mode)
    folder = shared_folder(tmp_path, "a", "b")
    assert folder == tmp_path / "a/b" and {stat.S_IMODE(each.stat().st_mode) for each in (folder, tmp_path / "a")} == {mode}
    put_text(tmp_path, folder / "x.json", "é")
    assert (folder / "x.json").read_text(encoding="utf-8") == "é"
    assert stat.S_IMODE((folder / "x.json").stat().st_mode) == (0o600 if mode == 0o700 else 0o644)
    folder.chmod(0o755)
    assert shared_folder(tmp_path, "a", "b") == folder and stat.S_IMODE(folder.stat().st_mode) == 0o755, "what is there is left as it is"


@pytest.mark.parametrize("there", [True, False])
def test_a_file_that_another_user_has_put_there_meanwhile_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: bool) -> None:
    """In a sticky folder nobody may replace another's file."""

    def refuse(source: str, target: Path) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted", str(target))

    monkeypatch.setattr(shared.os, "replace", refuse)
    path = tmp_path / "x.json"
    if there:
        path.write_text("theirs")
        put_text(tmp_path, path, "ours")
    else:
        with pytest.raises(PermissionError):
            put_text(tmp_path, path, "ours")
    assert [each.name for each in tmp_path.iterdir() if each.is_file()] == ["x.json"] * there

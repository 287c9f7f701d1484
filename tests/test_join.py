"""Another host finds the run directory in which the first works: known by its signs of life, not by the time of anything."""

from __future__ import annotations

import fcntl
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from mindrecipe import join as module
from mindrecipe.checkpoints import manifest
from mindrecipe.errors import UserError
from mindrecipe.execute import execute
from mindrecipe.join import join
from mindrecipe.launch import LaunchPlan
from mindrecipe.launch.claim import NAME, Claim, holder
from mindrecipe.launch.peers import Peers
from mindrecipe.measure.view import PlainView
from mindrecipe.resume import Start, decide, nothing_to_do
from mindrecipe.run import Run
from test_resume import ready, saved

pytestmark = pytest.mark.usefixtures("here")
WORDS = ("parallel=data", "launch.nodes=2", "launch.devices_per_node=1", "launch.master_addr=127.0.0.1", "run.dir=exp1")

ANSWERS = module._answers


class Said(PlainView):
    """What was said, and what happens at the n-th look."""

    def __init__(self, *then: Callable[[], object]) -> None:
        self.lines: list[str] = []
        self._then = list(then)

    def prepare(self, what: str) -> None:
        self.lines.append(what)
        if self._then:
            self._then.pop(0)()

    def note(self, what: str) -> None:
        self.lines.append(what)


def host(rank: int, *more: str, port: int = 20001, seconds: int = 600) -> Run:
    return ready(*WORDS, f"launch.node_rank={rank}", f"launch.master_port={port}", f"launch.cluster_time_out={seconds}", *more)


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LOOK_EVERY", 0.01)
    monkeypatch.setattr(module, "_answers", lambda host, port: port != 20001 and ANSWERS(host, port))


@pytest.fixture
def works() -> Iterator[Callable[[Path], None]]:
    """``works(path)``: the launcher of the first host is in ``path``."""
    with ExitStack() as held:

        def begin(path: Path) -> None:
            held.enter_context(Claim(path))
            held.enter_context(Peers(LaunchPlan(run_dir=path, nodes=2, node_rank=0)))

        yield begin


@pytest.fixture
def port() -> Iterator[int]:
    """Something answers there, as the first host's scheduler does."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def make(path: Path, works: Callable[[Path], None], *more: str) -> Path:
    host(0, *more).freeze(path, Start())
    works(path)
    return path


@pytest.mark.parametrize("age", [-1e6, 1e6], ids=["began long ago", "the file server's clock is ahead"])
@pytest.mark.parametrize("resume", ["never", "auto"])
def test_the_directory_in_which_the_first_host_works_is_joined(here: Path, works: Callable[[Path], None], age: float, resume: str) -> None:
    """However old its files say that it is; what an earlier launch left beside it is none."""
    old = saved(host(0, f"checkpoint.resume={resume}"), here / "exp1", 10)
    path = make(here / "exp1-2", works, f"checkpoint.resume={resume}")
    for file in [*old.rglob("*"), *path.rglob("*")]:
        os.utime(file, (1.7e9 + age, 1.7e9 + age))
    other = host(1, f"checkpoint.resume={resume}")
    assert nothing_to_do(other.derived) is None
    assert join(other, Said()) == path


def test_a_finished_run_leaves_nothing_to_do_on_any_host(here: Path) -> None:
    other = host(1, "checkpoint.resume=auto")
    path = saved(other, here / "exp1", 50)
    done = nothing_to_do(other.derived)
    assert done is not None and done.finished == path


def test_it_waits_for_a_first_host_that_begins_later_and_says_so(here: Path, works: Callable[[Path], None]) -> None:
    said = Said(*[lambda: None] * 3, lambda: make(here / "exp1", works) and None)
    assert join(host(1), said) == here / "exp1"
    assert len(said.lines) == 4
    assert said.lines[0] == f"waiting for the first host (launch.node_rank=0) to work in {here / 'exp1'}: 0 s, at most 600 s"


def test_on_a_disk_without_locks_its_sign_of_life_tells(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "holder", lambda path: None)
    path = host(0).freeze(here / "exp1", Start())
    sign = path / "hosts/here.node_0.json"
    sign.parent.mkdir()
    sign.touch()
    os.utime(sign, (5, 5))
    said = Said(lambda: None, lambda: os.utime(sign, (6, 6)))
    assert join(host(1), said) == path and len(said.lines) == 2


@pytest.mark.parametrize("left", ["dead", "worked in"])
def test_what_another_launch_left_is_not_joined(here: Path, works: Callable[[Path], None], left: str) -> None:
    if left == "dead":
        path = host(0).freeze(here / "exp1", Start())
        (path / "hosts").mkdir()
        (path / "hosts/here.node_0.json").write_text("{}")
    else:
        (make(here / "exp1", works) / "logs/msrun_1.log").touch()
    with pytest.raises(UserError, match=r"did not begin within 1 s \(launch.cluster_time_out\)") as told:
        join(host(1, seconds=1), Said())
    assert "launch.node_rank=0" in (told.value.mend or "")


def test_another_host_that_looks_is_no_first_host(here: Path) -> None:
    """Both look at what an earlier launch left, in the same moment."""
    path = host(0).freeze(here / "exp1", Start())
    with Claim(path):
        assert holder(path) == str(os.getpid())
    with (path / NAME).open() as looks:
        fcntl.flock(looks, fcntl.LOCK_SH)
        assert holder(path) is None


def test_a_host_that_was_given_other_words_is_refused(here: Path, works: Callable[[Path], None]) -> None:
    make(here / "exp1", works, "run.seed=7")
    with pytest.raises(UserError, match="of another configuration"):
        join(host(1, seconds=1), Said())


def test_the_directory_of_another_job_is_passed_over(here: Path, works: Callable[[Path], None]) -> None:
    """exp1-2 may be another job's run.dir as well as the second run of exp1; this host has worked in neither."""
    make(here / "exp1-2", works, "run.seed=7")
    with pytest.raises(UserError, match="exp1-2, which is of another configuration"):
        join(host(1, seconds=1), Said())
    mine = make(here / "exp1", works)
    assert join(host(1, seconds=20), Said()) == mine


def test_a_folder_that_is_not_shared_is_known_by_the_scheduler_that_answers(here: Path, port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    said = Said()
    monkeypatch.setattr(module, "_UNSEEN", 0.05)
    assert join(host(1, port=port), said) is None
    assert "is not to be seen here: this host makes one of its own" in said.lines[-1]
    with pytest.raises(UserError, match="hosts that start again together share it"):
        join(host(1, "launch.max_restarts=1", port=port), Said())


@pytest.mark.parametrize(
    ("words", "saved_before", "says"),
    [
        (("checkpoint.resume=auto",), False, None),  # the first start of a job
        (("checkpoint.resume=auto",), True, r"go on from what it has itself.*exp1 holds checkpoints of this host"),
        (("checkpoint.resume=never",), True, None),
        (
            ("checkpoint.resume=auto", "checkpoint.strict=false"),
            False,
            "go on from what it has itself",
        ),  # the first takes fewer ranks' files
        (("checkpoint.resume=must",), False, "go on from what it has itself"),
        (("checkpoint.resume=10",), True, "go on from what it has itself"),
    ],
)
def test_hosts_that_share_nothing_do_not_go_on_each_by_itself(
    here: Path, port: int, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], saved_before: bool, says: str | None
) -> None:
    """This host has the files of its own ranks only: it would find nothing to go on from, and start from scratch beside one that goes on."""
    monkeypatch.setattr(module, "_UNSEEN", 0.05)
    other = host(1, *words, port=port)
    if saved_before:
        other.freeze(here / "exp1", Start())
        (here / "exp1/logs/msrun_1.log").touch()
        manifest.begin(here / "exp1/checkpoint")
        manifest.write(here / "exp1/checkpoint", manifest.Manifest(step=10, rank=1, world=2, files={}))
    before = sorted(path for path in here.rglob("*"))
    if says is None:
        assert join(other, Said()) is None
    else:
        with pytest.raises(UserError, match=says) as told:
            join(other, Said())
        assert "checkpoint.resume=never" in (told.value.mend or "") and "all hosts share" in (told.value.mend or "")
    assert sorted(path for path in here.rglob("*")) == before, "nothing is moved aside"


def test_the_first_of_hosts_that_share_nothing_refuses_what_lacks_the_others_files(here: Path) -> None:
    first = host(0, "checkpoint.resume=auto")
    saved(first, here / "exp1", 10)
    with pytest.raises(UserError, match="saved by 1 ranks, and 2 are to go on from it") as told:
        decide(first.derived)
    assert "run.dir=<a folder that all hosts share>" in (told.value.mend or "")


def test_ranks_that_save_into_one_folder_share_it(here: Path, port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_UNSEEN", 0.05)
    words = ("parallel=semi_auto", "amp=O2", "device=ascend_910b", f"launch.master_port={port}", "launch.node_rank=1", *WORDS[1:])
    run = ready(*words, model="qwen3_tiny")
    with pytest.raises(UserError, match="save safetensors into one folder"):
        join(run, Said())
    assert join(ready(*words, "checkpoint=off", model="qwen3_tiny"), Said()) is None


def test_no_other_host_makes_the_directory_of_a_first_that_has_not_begun(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole, from the command on: nothing is there afterwards that the first host would find in its way."""
    other = host(1, "launch.master_addr=192.0.2.1", seconds=1)
    monkeypatch.setattr(Run, "prepare", lambda self, on_progress: self)
    monkeypatch.setattr("mindrecipe.datacheck.quick_findings", lambda derived: [])
    monkeypatch.setattr("mindrecipe.execute.require_here", lambda *a: None)
    with pytest.raises(UserError, match="did not begin"):
        execute(other, Said())
    assert not (here / "exp1").exists()


def test_a_lock_that_can_not_be_read_is_passed_over(here: Path, works: Callable[[Path], None]) -> None:
    for name, content in (("exp1-2", "{"), ("exp1-3", "[]"), ("exp1-4", "{}")):
        (here / name).mkdir()
        (here / name / "lock.json").write_text(content)
    assert join(host(1), Said(lambda: make(here / "exp1", works) and None)) == here / "exp1"

"""The live view of a terminal: a few lines that are drawn anew in place, then the summary as a table."""

from __future__ import annotations

import time
from collections.abc import Callable

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from mindrecipe.measure.outcome import Outcome, RankError
from mindrecipe.measure.record import Event, StepRecord
from mindrecipe.measure.summary import Summary
from mindrecipe.measure.view import text
from mindrecipe.measure.view.base import Header
from mindrecipe.measure.view.frame import frame_lines
from mindrecipe.measure.view.progress import Progress
from mindrecipe.measure.view.rows import STYLES, summary_rows

WIDEST = 120  # columns: beyond this the eye loses the line
REFRESH = 0.2  # seconds between two frames: smooth to the eye, a hundredth of a core


class LiveView:
    """Draws from the caller's thread, on :meth:`tick`: no thread of its own that a fork or a signal could meet."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.time) -> None:
        self.console = console
        self._clock = clock
        self._header: Header | None = None
        self._progress = Progress(None, clock=clock)
        self._preparing: str | None = None
        self._failure: RankError | None = None
        self._drawn = 0.0
        self._live = Live(self, console=console, auto_refresh=False, transient=True, vertical_overflow="crop")

    def prepare(self, what: str) -> None:
        """What goes on before the ranks start, in the place of the frame."""
        self._preparing = what
        self._start()
        self.tick()

    def begin(self, header: Header) -> None:
        """From now on the frame is the run's."""
        self._header, self._preparing = header, None
        self._progress = Progress(header.total_steps, header.local_ranks, self._clock)
        self._start()
        self._draw()

    def event(self, event: Event) -> None:
        """Seen in the next frame."""
        self._progress.on_event(event)

    def step(self, record: StepRecord) -> None:
        """Seen in the next frame."""
        self._progress.on_step(record)

    def say(self, line: str) -> None:
        """The line as it is."""
        self.console.print(Text(line), soft_wrap=True)

    def note(self, what: str) -> None:
        """A line above the frame."""
        self.console.print(Text(what, style="yellow"), soft_wrap=True)

    def failure(self, error: RankError) -> None:
        """Shown in the frame while the other ranks go down; told in full by the summary."""
        self._failure = error
        self._draw()

    def tick(self) -> None:
        """Draw a frame, if the last one is old enough."""
        if self._clock() - self._drawn >= REFRESH:
            self._draw()

    def end(self, outcome: Outcome, summary: Summary) -> None:
        """Replace the frame by the summary."""
        if self._header is None:
            raise RuntimeError("end() before begin()")
        self.close()
        table = Table.grid(padding=(0, 2))
        table.add_column(style="dim", no_wrap=True)
        table.add_column(overflow="fold")
        rows = summary_rows(self._header, outcome, summary)
        for row in rows:
            if not row.copied:
                table.add_row(row.label, Text(row.value, style=row.style))
        title = Text(self._header.title, style="bold")
        self.console.print(Panel(table, title=title, title_align="left", border_style=STYLES[outcome.state], expand=False))
        for row in rows:
            if row.copied:
                self.console.print(Text.assemble((f"{row.label:<11} ", "dim"), (row.value, row.style)), soft_wrap=True)

    def close(self) -> None:
        """Take the frame away and show the cursor again."""
        self._live.stop()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = min(WIDEST, options.max_width)
        inner = max(20, width - 4)
        if self._header is None:
            yield Text(f"{self._preparing or ''}  {text.duration(self._progress.elapsed)}", no_wrap=True, overflow="ellipsis")
            return
        lines = frame_lines(self._header, self._progress, inner, ascii_only=options.ascii_only, failure=self._failure)
        title = Text.assemble((self._header.title, "bold"), (f" {self._header.where}", "dim"))
        title.truncate(inner - 2, overflow="ellipsis")
        yield Panel(Text("\n").join(lines), title=title, title_align="left", border_style="red" if self._failure else "cyan", width=width)

    def _start(self) -> None:
        if not self._live.is_started:
            self._live.start()

    def _draw(self) -> None:
        self._drawn = self._clock()
        self._live.refresh()

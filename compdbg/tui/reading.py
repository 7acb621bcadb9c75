"""The run is read in threads: opened, followed, looked after while it is shown, and read again."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from compdbg.store.reader import CannotRead
from compdbg.tui import keys
from compdbg.tui.session import Session
from compdbg.views.places import counted

if TYPE_CHECKING:
    from compdbg.tui.app import Explorer

EVERY_S = 0.5
"""How often a run that is followed is looked at, at most."""
CHECK_S = 2.0
"""How often it is looked whether the log is still the one that was read."""


class Reading:
    """What the explorer reads, and when."""

    def __init__(self, app: Explorer, *, follow: bool) -> None:
        self.app = app
        self.session: Session = app.session
        self.follow = follow
        """Whether what is written meanwhile is read as it comes."""
        self._wanted = follow
        self.fault: CannotRead | None = None
        """Why the run could not be opened."""
        self._busy = False
        """Whether the run is being read, for the first time or again."""
        self._pause = EVERY_S

    @property
    def state(self) -> list[str]:
        """What is said at the top right of the log."""
        source, change = self.session.source, self.session.change
        if source is None:
            return ["opening"]
        said = []
        if change is not None:
            said.append(f"log {change.word}")
        elif not source.run.summary.complete:
            said.append("live" if self.follow else "not ended")
        return [*said, *["reading again"] * self._busy]

    def open(self) -> None:
        self._busy = True
        self.app.run_worker(self._open, thread=True, group="read")
        self.app.set_interval(CHECK_S, self.check)

    def _open(self) -> None:
        try:
            self.session.open(self._progress)
        except CannotRead as fault:
            self.fault = fault
            self.app.call_from_thread(self.app.exit)
            return
        self.app.call_from_thread(self._opened)

    def _progress(self, what: str, part: float | None) -> None:
        def tell() -> None:
            if self.app.closing:
                return
            self.app.main.doing = (what, part)
            self.app.main.frame()

        self.app.call_from_thread(tell)

    def _opened(self, *, looks: bool = True) -> None:
        """The run has been read. `looks`: where it is followed, nothing looks yet for what comes."""
        self._busy = False
        if self.app.closing:
            return
        self.app.main.show()
        if self.follow and self.session.is_long:
            self._unfollow("this run is too long to be followed: it is shown as it was when it was opened")
        elif self.follow and looks:
            self.app.set_timer(self._pause, self._look)

    def _unfollow(self, why: str) -> None:
        self.follow = False
        if self.app.closing:
            return
        if why:
            self.app.main.say(f"{why}; {_reload_key(self.app)} reads what has come since")
        self.app.main.frame()

    def _look(self) -> None:
        self.app.run_worker(self._grow, thread=True, group="follow", exclusive=True)

    def _grow(self) -> None:
        """Read on, in a thread; the more that takes, the longer until the next look."""
        began = time.monotonic()
        try:
            grew = self.session.grow()
        except CannotRead as fault:
            self.app.call_from_thread(self._unfollow, str(fault))
            return
        self._pause = max(EVERY_S, 4 * (time.monotonic() - began))
        self.app.call_from_thread(self._grown, grew)

    def _grown(self, grew: bool) -> None:
        if self.app.closing:
            return
        if grew:
            self.app.main.grown()
        source = self.session.source
        if self.session.change is not None:
            self._unfollow("")
            self._checked()
        elif source is not None and source.run.summary.complete:
            self._unfollow("")
        elif self.session.is_too_long:
            self._unfollow("this run has become too long to be followed: this is how it was")
        else:
            self.app.set_timer(self._pause, self._look)

    def check(self) -> None:
        """See whether the log is still the one that was read."""
        if self.session.source is not None and not self._busy:
            self.app.run_worker(self._check, thread=True, group="check", exclusive=True)

    def _check(self) -> None:
        before = self.session.change
        self.session.look_at_log()
        if self.session.change != before:
            self.app.call_from_thread(self._checked)

    def _checked(self) -> None:
        """Say what became of the log."""
        if self.app.closing:
            return
        change, key = self.session.change, _reload_key(self.app)
        if change is None:
            self.app.main.say("the log is again as it was read")
        else:
            self.app.main.say(f"{change.sentence}; {key} reads again; what was read is shown")

    def again(self) -> None:
        """Read the run anew; should that fail, what was read before stays."""
        if self._busy:
            self.app.main.say("the run is being read")
            return
        self._busy = True
        self.app.main.frame()
        self.app.run_worker(self._read_again, thread=True, group="read")

    def _read_again(self) -> None:
        try:
            anew = self.session.open_again(lambda what, part: None)
        except CannotRead as fault:
            self.app.call_from_thread(self._not_read, str(fault))
        else:
            self.app.call_from_thread(self._adopt, anew)

    def _not_read(self, fault: str) -> None:
        self._busy = False
        if not self.app.closing:
            self.app.main.say(f"{fault}; what was read before is shown")

    def _adopt(self, anew: Session) -> None:
        if self.app.closing:
            return
        self.session.adopt(anew)
        self.app.main.start_over()
        looked, self.follow = self.follow, self._wanted
        self._opened(looks=not looked)
        if anew.source is not None and not self.app.main.note:
            self.app.main.say(f"read again: {counted(len(anew.source.run.log.records), 'event')}")


def _reload_key(app: Explorer) -> str:
    """The key that reads again, which may be the user's own."""
    given = next(action.keys for action in keys.ACTIONS if action.id == "reload")
    return keys.shown_key(app.settings.keys.get("reload", given))

"""Takes out of a run what says who recorded it and where: before it is shown to others.

A home folder becomes `~`, a host `<host>`, a user's name `<user>`, the value of an environment
variable `<hidden>` (but for 0, 1, true, false) and, where it is a path, `<$NAME>` wherever else it
stands. What was replaced is counted, so that a reader knows that something was.
"""

from __future__ import annotations

import getpass
import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec

from compdbg.events import ProcessStart, UnknownEvent
from compdbg.store.reader import Log, Record, as_event

HIDDEN = "<hidden>"
_HOME = re.compile(
    r"(?<![\w.~-])(?:(?:/[\w.-]+){0,2}/(?:home|Users|users)/|[A-Za-z]:(?:\\+|/)Users(?:\\+|/))"
    r"""(?P<user>[^/\\\s"'`:;,<>()\[\]{}|]+)|(?<![\w.~/-])/root(?![\w.-])"""
)
_COMMON = frozenset(
    (
        "root", "user", "users", "admin", "ubuntu", "debian", "runner", "home", "torch", "test", "tests",
        "dev", "app", "work", "model", "data", "node", "build", "nobody", "docker", "jovyan", "vscode",
        "python", "localhost", "host", "shared", "public", "vm", "server",
    )
)  # fmt: skip
"""Names that say nothing of anybody, and stand in texts as words."""
_FLAGS = frozenset(("", "0", "1", "true", "false", "True", "False", "on", "off"))
_SHORT = 3
_OURS = "COMPDBG_"
"""Variables that `compdbg run` sets itself: the run's own folder is no secret's name."""

HOME, USER, HOST, VALUE = (
    "paths below a home folder (~)",
    "user names (<user>)",
    "host names (<host>)",
    "values of environment variables (<hidden>)",
)


class Redactor:
    """Replaces in texts, and counts. `users`, `hosts` and `paths` are what it knows to look for."""

    def __init__(self, users: Iterable[str], hosts: Iterable[str], paths: Mapping[str, str]) -> None:
        self.counts: Counter[str] = Counter()
        self._paths = {form: f"<${name}>" for path, name in paths.items() for form in _forms(path)}
        hosts = {part for host in hosts for part in (host, host.partition(".")[0])}
        self._words = {form: (USER, "<user>") for user in users if _tells(user) for form in _forms(user)}
        self._words |= {form: (HOST, "<host>") for host in hosts if _tells(host) for form in _forms(host)}
        self._path = _any_of(self._paths, after=r"(?![\w.-])")
        self._word = _any_of(self._words, before=r"(?<!\w)", after=r"(?!\w)")

    def __call__(self, text: str) -> str:
        """The text, plain or as JSON, without what identifies people."""
        text = self._path.sub(self._value, text) if any(path in text for path in self._paths) else text
        text = _HOME.sub(self._home, text) if _may_have_home(text) else text
        return self._word.sub(self._named, text) if any(word in text for word in self._words) else text

    def _value(self, found: re.Match[str]) -> str:
        self.counts[VALUE] += 1
        return self._paths[found[0]]

    def _home(self, found: re.Match[str]) -> str:
        self.counts[HOME] += 1
        return "~"

    def _named(self, found: re.Match[str]) -> str:
        what, shown = self._words[found[0]]
        self.counts[what] += 1
        return shown

    def told(self) -> list[str]:
        """What was replaced and how often, in words."""
        return [f"{count} × {what}" for what, count in sorted(self.counts.items())]


def redacted(log: Log) -> tuple[Log, Redactor]:
    """The run without what identifies people; its large texts are replaced when they are asked for."""
    redactor = _redactor_for(log, map(_as_json, log.records))
    clean = _Events(redactor)
    records = [r for r in (clean(record, _as_json(record)) for record in log.records) if r is not None]
    sources = None
    if log.sources is not None:
        sources = {
            redactor(file): {n: redactor(line) for n, line in lines.items()}
            for file, lines in log.sources.items()
        }
    manifest = json.loads(redactor(json.dumps(log.manifest, ensure_ascii=False)))
    if "host" in manifest:
        manifest["host"] = "<host>"
    hidden = replace(
        log,
        folder=Path(redactor(str(log.folder.absolute()))),
        manifest=manifest,
        records=records,
        texts=_Texts(log, redactor),
        sources=sources,
    )
    return hidden, redactor


class _Events:
    """Redacts one event of which the JSON is known."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor

    def __call__(self, record: Record, body: str) -> Record | None:
        event = record.event
        clean = self._redactor(body)
        if clean != body:
            fields = msgspec.json.decode(clean)
            known = as_event(event.kind, fields)
            event = event if known is None else known
            if known is None:
                return None
        if isinstance(event, ProcessStart):
            event = self._start(event)
        return record if event is record.event else Record(record.header, event)

    def _start(self, event: ProcessStart) -> ProcessStart:
        env = {name: value if value in _FLAGS else HIDDEN for name, value in event.env.items()}
        self._redactor.counts[VALUE] += sum(value == HIDDEN for value in env.values())
        self._redactor.counts[HOST] += bool(event.host)
        return msgspec.structs.replace(event, env=env, host="<host>" if event.host else "")


class _Texts(Mapping[str, str]):
    """The large texts of a log, redacted as they are read; only looking up is supported."""

    def __init__(self, log: Log, redactor: Redactor) -> None:
        self._log, self._redactor = log, redactor
        self._known: dict[str, str | None] = {}

    def __getitem__(self, digest: str) -> str:
        if digest not in self._known:
            text = self._log.text(digest)
            self._known[digest] = None if text is None else self._redactor(text)
        found = self._known[digest]
        if found is None:
            raise KeyError(digest)
        return found

    def __iter__(self) -> Iterator[str]:
        return (digest for digest, text in self._known.items() if text is not None)

    def __len__(self) -> int:
        return sum(text is not None for text in self._known.values())


def _redactor_for(log: Log, bodies: Iterable[str]) -> Redactor:
    """Knows this machine's names, those that the run names itself, and whose home folders it mentions."""
    users, hosts = {_me()}, {os.uname().nodename, str(log.manifest.get("host", ""))}
    paths: dict[str, str] = {}
    said = (str(log.folder.absolute()), json.dumps(log.manifest, ensure_ascii=False))
    for text in chain(bodies, said):
        if _may_have_home(text):
            users |= {found["user"] for found in _HOME.finditer(text) if found["user"]}
    for _, start in log.of(ProcessStart):
        hosts.add(start.host)
        paths |= {v: name for name, v in start.env.items() if v.count("/") > 1 and not name.startswith(_OURS)}
    return Redactor(users, hosts, paths)


def _may_have_home(text: str) -> bool:
    """Far quicker than looking properly: most events name no path."""
    return "/home/" in text or "sers" in text or "/root" in text


def _as_json(record: Record) -> str:
    event = record.event
    fields: Any = event.fields if isinstance(event, UnknownEvent) else event
    return msgspec.json.encode(fields).decode("utf-8", "replace")


def _tells(name: str) -> bool:
    return len(name) >= _SHORT and name.lower() not in _COMMON and not name.isdecimal()


def _forms(text: str) -> set[str]:
    """As it stands in a text, and as in JSON."""
    return {text, json.dumps(text, ensure_ascii=False)[1:-1]}


def _any_of(words: Iterable[str], before: str = "", after: str = "") -> re.Pattern[str]:
    longest_first = sorted(words, key=len, reverse=True)
    return re.compile(before + "(?:" + "|".join(map(re.escape, longest_first)) + ")" + after)


def _me() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user id without a name
        return ""

"""Diff: the runs and ranks that this run can be compared with; each opens what changed between them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct

from compdbg.compare.runs import Difference
from compdbg.model.run import Run
from compdbg.store.locate import all_runs
from compdbg.store.ranks import open_side, ranks_of
from compdbg.store.reader import CannotRead, read_manifest
from compdbg.views.base import Column, Source, View
from compdbg.views.explorer.apart import Failed, Tell
from compdbg.views.explorer.base import Block, Code, CodeLine, Page, Place
from compdbg.views.explorer.compared import compared, compared_apart, has_long
from compdbg.views.explorer.words import facts
from compdbg.views.places import counted

_CHANGES = {"added": ("+", "good"), "removed": ("-", "bad"), "changed": ("±", "warn")}
MOST = 200
"""Runs beside this one that are listed."""


class Side(Struct, frozen=True, kw_only=True):
    """Something to compare with: `a` is what stands before, `b` after; None is this run as it is."""

    name: str
    kind: str
    started: str
    program: str
    found: str
    a: str
    b: str | None


def diff_view(source: Source) -> View:
    rows = [*_ranks(source), *_runs(source)]
    return View(
        name="diff",
        title="Diff: what changed since it worked",
        items=rows,
        columns=(
            Column("compare with", lambda r: r.name),
            Column("is", lambda r: r.kind, role=lambda r: "dim"),
            Column("started", lambda r: r.started),
            Column("found", lambda r: r.found),
            Column("program", lambda r: r.program, wide=True),
        ),
        lines=[f"{counted(len(rows), 'run or rank', 'runs and ranks')} to compare with; enter compares"]
        if rows
        else [],
        empty="There is no other run beside this one, and it has no ranks to compare.",
    )


def _ranks(source: Source) -> Iterator[Side]:
    """The first rank against each other one."""
    first, *others = ranks_of(source.run.log) or [0]
    folder = source.run.log.folder
    for other in others:
        yield Side(
            name=f"rank {first} and rank {other}",
            kind="rank",
            started="",
            program="of this run",
            found="",
            a=f"{folder}@{first}",
            b=f"{folder}@{other}",
        )


def _runs(source: Source) -> Iterator[Side]:
    """The runs beside this one, newest first, those of the same program before the others."""
    own = source.run.log.folder.resolve()
    found = [(p, m) for p in all_runs(own.parent)[:MOST] if p.resolve() != own and (m := _manifest(p))]
    mine = source.run.summary.argv[:1]
    for path, manifest in sorted(found, key=lambda pair: list(pair[1].get("argv", []))[:1] != mine):
        yield Side(
            name=path.name,
            kind="run",
            started=str(manifest.get("started") or "")[:19].replace("T", " "),
            program=" ".join(manifest.get("argv", [])),
            found=_counts(manifest),
            a=str(path),
            b=None,
        )


def _manifest(path: Path) -> dict[str, Any]:
    try:
        return read_manifest(path)
    except CannotRead:
        return {}


def _counts(manifest: dict[str, Any]) -> str:
    found = manifest.get("findings")
    if not isinstance(found, dict):
        return ""
    failed = manifest.get("exit_status") or manifest.get("signal")
    said = [counted(found[s], s) for s in ("error", "warning") if found.get(s)]
    return ", ".join(said) or ("failed" if failed else "no fault")


def side_page(source: Source, side: Side) -> Page:
    blocks: list[Block] = [
        *facts(
            ("", f"Compare with {side.name}", "title"),
            ("started", side.started),
            ("program", side.program),
            ("found", side.found),
            (
                "",
                "Enter compares findings, guards, passes, matches, pieces, sizes, cache factors, times.",
            ),
        )
    ]
    return Page(title=side.name, blocks=blocks)


def differences(source: Source, side: Side) -> Place:
    """What changed, as a place of its own; it is worked out when it is looked at."""
    return Place(
        name=f"diff {side.a} {side.b}",
        letter="",
        title=side.name,
        view=lambda own: _compared(own, side, lambda what, part: None),
        slow_view=lambda own, told: _compared(own, side, told),
        page=difference_page,
        key=lambda d: f"{d.view} {d.key} {d.change}",
        row=Difference,
    )


def _compared(source: Source, side: Side, told: Tell) -> View:
    first, second = side.a.rpartition("@")[2], (side.b or "").rpartition("@")[2]
    names = (side.name, "this run") if side.b is None else (f"rank {first}", f"rank {second}")
    own = side.b or str(source.run.log.folder)
    try:
        if has_long(side.a, own):
            found = compared_apart(side.a, own, names, told)
        else:
            after = source.run if side.b is None else Run(open_side(side.b))
            known = source.findings if side.b is None else None
            found = compared(Run(open_side(side.a)), after, known, names)
    except (CannotRead, Failed) as problem:
        return View(name="differences", title=str(problem), items=(), empty=str(problem))
    return View(
        name="differences",
        title=found.title,
        items=found.rows,
        columns=(
            Column(
                "change",
                lambda d: f"{_CHANGES[d.change][0]} {d.change}",
                role=lambda d: _CHANGES[d.change][1],
            ),
            Column("in", lambda d: d.view),
            Column("what", lambda d: d.key, wide=True),
            Column("before", lambda d: d.a or ""),
            Column("after", lambda d: d.b or ""),
        ),
        lines=[found.title, *found.lines],
        empty="Nothing that counts differs between the two.",
    )


def _role(difference: Difference) -> str:
    return _CHANGES[difference.change][1]


def difference_page(source: Source, difference: Difference) -> Page:
    mark, role = _CHANGES[difference.change]
    lines = [CodeLine(line, "-") for line in (difference.a or "").splitlines()]
    lines += [CodeLine(line, "+") for line in (difference.b or "").splitlines()]
    blocks: list[Block] = [
        *facts(
            ("", difference.key, "title"),
            ("in", difference.view),
            ("change", f"{mark} {difference.change}", role),
        ),
        Code(lines, title="- before   + after", language="diff"),
    ]
    return Page(title=difference.key, blocks=blocks)


DIFF = Place(
    name="diff",
    letter="d",
    title="Diff",
    view=diff_view,
    page=side_page,
    key=lambda r: r.name,
    row=Side,
    inside=differences,
)

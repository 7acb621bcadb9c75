"""What is said of an apply once it has ended: its attempts, broken patterns, other forms in the graph."""

from __future__ import annotations

from compdbg import probe
from compdbg.events import PatternForm, PatternPass, PatternProblem, ReplacementsChecked
from compdbg.hooks import artifacts
from compdbg.hooks.pattern_matcher_apply import Applying
from compdbg.hooks.pattern_matcher_forms import GraphIndex, find_form
from compdbg.hooks.pattern_matcher_lint import registration_of
from compdbg.hooks.userline import of_node


def report(applying: Applying, event: PatternPass) -> None:
    """Emit an apply with everything that belongs to it."""
    if event.custom:
        artifacts.note(applying.as_record(event))
    parent = probe.emit(event)
    with probe.under(parent):
        for attempt in applying.attempts:
            probe.emit(attempt)
        if applying.compared:
            checked = ReplacementsChecked(
                pass_id=event.pass_id,
                graph=event.graph,
                compared=applying.compared,
                values_compared=applying.values_compared,
            )
            probe.emit(checked)
        for wrong in applying.wrong:
            probe.emit(wrong)
        if event.custom:
            _report_problems(applying, event)
            _report_forms(applying, event)


def _report_problems(applying: Applying, event: PatternPass) -> None:
    for entry, pattern in applying.info.noted_patterns():
        registered = registration_of(pattern)
        if registered is None or not entry.custom:
            continue
        for problem in registered.problems(event.stage):
            if applying.info.first_time((entry.name, problem.problem)):
                probe.emit(
                    PatternProblem(
                        pass_id=event.pass_id,
                        pass_name=event.pass_name,
                        pattern=entry.name,
                        problem=problem.problem,
                        detail=problem.detail,
                        where=entry.where,
                    )
                )


def _report_forms(applying: Applying, event: PatternPass) -> None:
    """Of the patterns that came to nothing here, those that the graph holds in another form."""
    close = {a.pattern for a in applying.attempts if a.near}
    index = None
    for entry, pattern in applying.info.noted_patterns():
        if entry.name in close or not entry.custom:
            continue
        index = index or GraphIndex(applying.graph)
        registered = registration_of(pattern)
        form = find_form(entry.ops, registered.calls if registered else {}, index)
        if form is not None:
            probe.emit(
                PatternForm(
                    pass_id=event.pass_id,
                    pass_name=event.pass_name,
                    pattern=entry.name,
                    graph=event.graph,
                    graph_id=event.graph_id,
                    form=form.form,
                    wanted=form.wanted,
                    found=form.found,
                    where=of_node(form.node),
                    compile_id=event.compile_id,
                )
            )

"""What to do about a graph break: our words for the common kinds, else torch's own hint."""

from __future__ import annotations

import re

from compdbg.events import GraphBreak

_ITEM = (
    "keep the value a tensor, or set torch._dynamo.config.capture_scalar_outputs = True so that it stays in "
    "the graph."
)
_PRINT = (
    "move the print or log call out of the compiled function; "
    "torch._dynamo.config.reorderable_logging_functions "
    "lets Dynamo run it after the graph."
)
_DISABLED = (
    "the function is wrapped in torch.compiler.disable: call it outside the compiled function, or make it a "
    "custom op (torch.library.custom_op) that stays in the graph."
)
_SKIPPED_CALL = (
    "Dynamo does not trace into this function: call it outside the compiled region, or wrap it as a custom "
    "op "
    "(torch.library.custom_op)."
)
_HINTS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), hint)
    for pattern, hint in (
        (r"Tensor\.(item|tolist)|\.item\(\)|aten\._local_scalar_dense", _ITEM),
        (r"builtin operator `?(print|input)|logging\.Logger|`print`", _PRINT),
        (r"torch\.compiler\.disable", _DISABLED),
        (
            r"Data-dependent branching|data-dependent expression",
            "choose by value inside the graph: torch.where for elementwise choices, torch.cond for whole "
            "branches; "
            "or take the decision before the compiled function.",
        ),
        (r"_dynamo\.graph_break\(\)", "remove the torch._dynamo.graph_break() call."),
        (
            r"Dynamic shape operator|nonzero|Data dependent operator",
            "the size of the result depends on values: set "
            "torch._dynamo.config.capture_dynamic_output_shape_ops "
            "= True, or use a form of fixed size (torch.where with three arguments, a mask).",
        ),
        (
            r"Tensor\.backward\(\)",
            "compile the forward and the loss only, and call backward() outside the compiled function.",
        ),
        (r"[Gg]enerator", "compile a plain function that runs the generator, not the generator itself."),
        (
            r"context manager",
            "enter the context manager outside the compiled function, or use one that Dynamo supports.",
        ),
        (
            r"Observed exception",
            "Dynamo meets an exception that nothing in the function catches, and runs the whole function "
            "eager: "
            "check the input before the compiled function is called, or avoid the call that raises while "
            "tracing.",
        ),
        (
            r"fake tensor|fake impl|meta kernel",
            "give the operator a fake (torch.library.register_fake), so that it can be traced.",
        ),
        (
            r"Backend compiler exception",
            "the backend failed on this graph and torch went on eager: fix what it reports, or use another "
            "backend.",
        ),
        (r"marked as skipped|Unsupported function call|C/C\+\+|builtin operator", _SKIPPED_CALL),
        (
            r"Unsupported method call",
            "move the call out of the compiled function, or do what it does with torch operators.",
        ),
    )
)
_LABEL = re.compile(r"^(This graph break is fundamental|It may be possible to write Dynamo)")


def hint_for(event: GraphBreak) -> str:
    """One sentence or two that say what to change."""
    if event.by_torch:
        return "torch breaks here on purpose; call it outside the compiled function to keep one graph."
    text = f"{event.reason} {event.explanation}"
    for pattern, hint in _HINTS:
        if pattern.search(text):
            return hint
    if event.hint and not _LABEL.match(event.hint):
        return event.hint if event.hint.endswith(".") else event.hint + "."
    return "move this line out of the compiled function, or replace it by torch operators."

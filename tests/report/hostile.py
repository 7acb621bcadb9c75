"""A run whose every text tries to become markup, script, a link or a lie: each event type, each field."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from compdbg.events import CompileError, Guards, GuardViolation, Span, Where, event_types
from compdbg.record.lines import Lines
from compdbg.record.writer import Writer

PAYLOADS = (
    "</script><script>window.pwned=1</script>",
    "--><script>window.pwned=1</script><!--",
    "\"'><img src=x onerror=window.pwned=1>",
    "<svg/onload=window.pwned=1>",
    "javascript:window.pwned=1",
    "'\" onmouseover=window.pwned=1 style=background:url(//evil.example/x) x='",
    "</textarea></title></style><iframe srcdoc='<script>parent.pwned=1</script>'>",
    "`${window.pwned=1}` {{constructor.constructor('window.pwned=1')()}}",
    "abc\u202egnp.exe\u2066\u200b\x00\x07\x1b[31m\x9b\u2028\ufeff",
)
LONG = "L" * 1_000_000
OURS = {"problem": "no-self-match", "fault": "dtype", "changed": True}
"""Words that the recorder chooses from a list, and no program can."""


def hostile_run(folder: Path) -> Path:
    """Every event type once for each payload, in every field that holds a text."""
    folder.mkdir(parents=True)
    manifest = {
        "schema": "1.0",
        "argv": list(PAYLOADS),
        "complete": True,
        "host": PAYLOADS[0],
        "exit_status": 0,
    }
    (folder / "run.json").write_text(json.dumps(manifest))
    for payload in (*PAYLOADS, LONG):
        lines = Lines(str(folder))
        writer = Writer(lines)
        digest = writer.payload(
            f"def forward(\n    {payload} = {payload}({payload})\n    return ({payload},)"
        )
        for event in event_types() if payload is not LONG else (GuardViolation, Guards, Span, CompileError):
            fields = {f.encode_name: _filled(f.type, payload) for f in msgspec.structs.fields(event)}
            fields |= {name: digest for name in ("text", "before", "after") if name in fields}
            fields |= {name: word for name, word in OURS.items() if name in fields}
            lines.note(str(event.__struct_config__.tag), **fields)
        lines.close()
    (folder / "payloads" / f"{'ab' * 16}.txt").write_bytes(b"\xff\xfe not UTF-8 \xff\n" + b"x" * 1_000_000)
    with (folder / "host-1-raw.jsonl").open("wb") as file:
        file.write(
            b'{"run":"r","process":"9-raw","seq":1,"time":1.0,"kind":"span","name":"\xff\xfe","duration_s":1}\n'
        )
        file.write(
            b'{"run":"r","process":"9-raw","seq":2,"time":1.0,"kind":"graph","graph":"0/0","stage":"dynamo",'
            b'"text":"' + b"ab" * 16 + b'"}\n'
        )
    return folder


def _filled(kind: Any, payload: str) -> Any:
    return _of_type(msgspec.inspect.type_info(kind), payload)


def _of_type(info: Any, payload: str) -> Any:
    """A value of a type in which every text is the payload."""
    inspect = msgspec.inspect
    if isinstance(info, inspect.UnionType):
        return _of_type(next(t for t in info.types if not isinstance(t, inspect.NoneType)), payload)
    if isinstance(info, inspect.StructType):
        file = {"file": f"/srv/{payload}"} if info.cls is Where else {}
        return {f.encode_name: _of_type(f.type, payload) for f in info.fields} | file
    if isinstance(info, (inspect.ListType, inspect.VarTupleType)):
        return [_of_type(info.item_type, payload)]
    if isinstance(info, inspect.DictType):
        return {payload: _of_type(info.value_type, payload)}
    if isinstance(info, inspect.LiteralType):
        return info.values[0]
    return {inspect.IntType: 3, inspect.FloatType: 1.5, inspect.BoolType: True}.get(type(info), payload)

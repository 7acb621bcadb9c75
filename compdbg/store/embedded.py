"""The run inside a report, and back: a report is a run that can be read like any other.

Data stands in the page as base64 of deflated JSON, in elements that no browser runs. Reading
inflates and decodes them and executes nothing; what is not as it was written is refused.
"""

from __future__ import annotations

import base64
import binascii
import re
import zlib
from pathlib import Path
from typing import Any

import msgspec

from compdbg.store.packed import unpack_events, unpack_texts
from compdbg.store.reader import CannotRead, Log, checked_manifest

MARK = "compdbg-report"
"""Stands in the first lines of every report."""
_HEAD = 4096
_MOST = 1 << 30
"""Bytes that a block may inflate to."""
_LINE = 16384
_LEVEL = 7
"""Of zlib: the highest takes four times as long for a hundredth less."""


def encode(value: Any) -> str:
    """A value as the text of a block: base64 in lines, which holds no character that ends one."""
    content = zlib.compress(msgspec.json.encode(value, enc_hook=str), _LEVEL)
    text = base64.b64encode(content).decode()
    return "\n".join(text[n : n + _LINE] for n in range(0, len(text), _LINE))


def decode(text: str) -> Any:
    """The value of a block.

    Raises:
        CannotRead: it is none.
    """
    try:
        inflate = zlib.decompressobj()
        content = inflate.decompress(base64.b64decode("".join(text.split()), validate=True), _MOST)
        if not inflate.eof:
            raise CannotRead("a block of the report is cut short, or larger than 1 GiB")
        return msgspec.json.decode(content)
    except (binascii.Error, zlib.error, msgspec.DecodeError, RecursionError) as error:
        raise CannotRead(f"a block of the report is damaged: {error}") from None


def is_report(path: Path) -> bool:
    """Whether a file is a report of ours, by its first lines."""
    try:
        with path.open("rb") as file:
            return MARK.encode() in file.read(_HEAD)
    except OSError:
        return False


def read_report(path: Path) -> Log:
    """The run that a report carries.

    Raises:
        CannotRead: it is no report, is damaged, or of a newer version.
    """
    try:
        page = path.read_text("utf-8", "replace")
    except OSError as error:
        raise CannotRead(f"{path}: {error.strerror}") from None
    if MARK not in page[:_HEAD]:
        raise CannotRead(f"{path} is no report of compdbg")
    try:
        run = decode(_block(page, "run"))
        records = list(unpack_events(decode(_block(page, "events"))))
        texts = unpack_texts(decode(_block(page, "texts")))
        sources = {
            str(file): {int(n): str(line) for n, line in lines.items()}
            for file, lines in run["sources"].items()
        }
        left_out = [str(sentence) for sentence in run["left_out"]]
        manifest = checked_manifest(run["manifest"], path)
    except CannotRead as error:
        raise CannotRead(f"{path}: {error}") from None
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, StopIteration) as error:
        raise CannotRead(f"{path}: the run in it is damaged ({type(error).__name__}: {error})") from None
    return Log(path, manifest, records, texts=texts, sources=sources, left_out=left_out)


def _block(page: str, name: str) -> str:
    found = re.search(rf'<script type="text/plain" id="compdbg-{name}">([A-Za-z0-9+/=\s]*)</script>', page)
    if found is None:
        raise CannotRead(f"the report holds no block {name!r}: it was cut short or changed")
    return found[1]

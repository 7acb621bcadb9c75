"""What is expected of a run: bounds on counts, and findings that must not be there."""

from __future__ import annotations

from msgspec import Struct

Value = int | list[int]


class Bound(Struct, frozen=True, kw_only=True):
    """What a value may be; with neither of the three, anything that was observed."""

    exactly: Value | None = None
    least: int | None = None
    most: int | None = None

    def allows(self, value: Value) -> bool:
        if self.exactly is not None and value != self.exactly:
            return False
        if not isinstance(value, int):
            return True
        return (self.least is None or value >= self.least) and (self.most is None or value <= self.most)

    @property
    def wanted(self) -> Value | str:
        """The value itself, or the bound in words."""
        if self.exactly is not None:
            return self.exactly
        if self.least is not None and self.most is not None:
            return f"{self.least} to {self.most}"
        return f"at least {self.least}" if self.least is not None else f"at most {self.most}"


class Expectation(Struct, frozen=True, kw_only=True):
    """A bound on one count: `area` says which, `subject` of which pass."""

    area: str
    bound: Bound
    subject: str = ""

    @property
    def name(self) -> str:
        return f"fusion.{self.subject}.matched" if self.subject else self.area


class Allowed(Struct, frozen=True, kw_only=True):
    """A finding that is accepted although its code is denied: those of a code, or only one."""

    code: str | None = None
    fingerprint: str | None = None
    reason: str = ""


class Expectations(Struct, frozen=True, kw_only=True):
    """All that is expected of a run. `deny` holds codes, fingerprints and severities."""

    counts: list[Expectation] = []
    deny: list[str] = []
    allow: list[Allowed] = []

"""Hooks: one file a layer of torch (or vLLM) observed. They live in the user's process.

A hook never raises into the program, never changes a result, checks its targets when it is
installed, and degrades with an event where torch differs. See `docs/write-a-hook.md`.
"""

"""Hours in minutes: a real API server that dies, connections that are cut, a plugin that fails and hangs.

    python -m tests.soak --seconds 600

Everybody else does what a well-written program does, and the table at the end says what came of it. docs/soak.md
says how to read it.
"""

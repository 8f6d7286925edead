"""`fairlead claude`: runs Claude Code for another program, and lends it to the gateway as a session.

`invocation.py` reads the arguments, `router.py` decides where each line goes (both pure), `outbox.py` keeps what the
gateway has not stored yet, `real_cli.py` finds Claude Code, `child.py` runs it, `gateway.py` connects to the gateway,
and `program.py` puts them together.
"""

"""Fairlead's vocabulary: ids, content, events, commands, queries, errors, ports. No I/O, no imports from other packages
of Fairlead."""

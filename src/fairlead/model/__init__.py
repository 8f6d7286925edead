"""The words of Fairlead: ids, content, events, commands, queries, errors, ports. No I/O; imports nothing of ours."""

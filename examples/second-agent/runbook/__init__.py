"""An agent for Fairlead in a package of its own: it runs the commands of a runbook, one after the other."""

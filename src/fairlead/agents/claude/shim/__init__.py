"""A CLI that another program started, and that its shim (`fairlead claude`) lends to the gateway."""

"""The variables of the environment that set or select something."""

ENV_PREFIX = "FAIRLEAD_"
# Variables that other parts of the program read: the first admin token, the address and name of a client, the access
# of a session's agent.
NOT_SETTINGS = frozenset(
    {
        *("FAIRLEAD_TOKEN", "FAIRLEAD_URL", "FAIRLEAD_CONFIG", "FAIRLEAD_CACHE", "FAIRLEAD_NO_SKIP"),
        *("FAIRLEAD_SHIM", "FAIRLEAD_SESSION_TOKEN", "FAIRLEAD_SESSION_URL", "FAIRLEAD_PORTABLE"),
    }
)

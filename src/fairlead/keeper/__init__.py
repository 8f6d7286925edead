"""The keeper: one small process per data folder that holds the pipes and PTYs of agents and shells, so that they
survive a gateway that is killed, stopped or upgraded.

`frames`, `messages`, `effects`, `buffers`, `held` and `state` are pure; `daemon`, `loop`, `connections`, `children`,
`address` and `log` are the process around them. All these use the standard library only. `client` and `kept_process`
are the gateway's side.
"""

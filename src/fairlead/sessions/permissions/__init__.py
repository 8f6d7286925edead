"""Permission requests of agents: the policy, and the requests that a person answers."""

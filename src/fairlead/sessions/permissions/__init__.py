"""Permission requests of agents: the policy that decides, and the people who are asked."""

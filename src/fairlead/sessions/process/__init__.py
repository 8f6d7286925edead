"""The agent's process of a session: started, followed, handed over, ended, and logged."""

"""Sends what happens in sessions to the clients that subscribed: hub, projections, broadcasts."""

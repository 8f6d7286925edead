"""Delivers session events to subscribed clients: hub, projections, broadcasts."""

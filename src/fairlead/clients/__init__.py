"""Client protocols, one folder each, pure: a folder declares its routes and sockets as `PROTOCOL`."""

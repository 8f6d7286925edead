"""Client protocols, one pure package each. Each package declares its routes and sockets as `PROTOCOL`."""

"""What a client protocol and the server exchange: requests, routes, sockets, broadcasts. Pure."""

"""How much of a latency is the network: pings on each connection, a reflector on the server's host."""

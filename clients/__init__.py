"""How each protocol is spoken: pure wire codecs, transports that stamp, and the clients on top of them."""

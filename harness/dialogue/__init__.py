"""One dialogue, live: when frames leave, what the client knows meanwhile, the record that it leaves."""

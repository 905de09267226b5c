"""First-content latency: how long until a reply says something, when what only fills the wait is left out."""

"""One turn in one archive, for a bug report to whoever runs the server."""

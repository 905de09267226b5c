"""Services that are asked over HTTP, one request at a time."""

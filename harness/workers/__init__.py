"""Several processes of this host that perform one run together, and runs of several hosts joined to one."""

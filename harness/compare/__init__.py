"""Two runs set side by side, and one run held to what was promised: comparison, refusals, service levels, JUnit."""

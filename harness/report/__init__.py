"""What a run came to, and how it is shown: summary, terminal table, CSV, report.html."""

"""What the scoring engine costs: beside bare forward passes, beside the published way, and in memory."""

"""Speech to text for scoring: back ends in a table, silence settled before one is asked, and the metric `asr`."""

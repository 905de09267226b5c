"""One small module per measure or family of measures of a turn; `metrics.table` names them all."""

"""Whether a run folder can be believed: whole logs, instants that could have been, figures that follow from them."""

"""Turn-taking: who spoke when, and what that did to the other.

`lanes` is all that the measures see: the user's sounds, the agent's heard stretches and, where there is an event log,
its replies. One small module per family of measures; `table` names them all; `totals` adds turns up.
"""

"""Turn-taking from audio alone: two lanes, a detector of speech, and the measures of `metrics/turn_taking`.

`inputs` finds the lanes, `hearing` listens to them, `labels` reads what somebody noted of the user's sounds, `turns`
makes turns of the stretches, `measuring` measures a recording and `analysis` adds them up. `detector` knows how far the
detector itself is off. docs/analyze.md tells the rest.
"""

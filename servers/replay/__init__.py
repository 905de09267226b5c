"""A recorded dialogue as a server: it answers with the recorded messages, byte for byte, when they came.

Every message is tied to the client's last stimulus before it in the log, and leaves as long after that stimulus as it
came then. Messages keep their order.

Stimuli are: `open`, the connection; each message of the client's that is not audio (a set-up message, a commit, a
request, a cancel …); and where audio flows without an end-of-turn message (classes B and D) `start` and `end` of each
utterance, that is its first sample and its `speech_end`. A silence that the script keeps is no stimulus.

Their instants, recorded: `open`: the connection stood · a message: its write returned · `start`, `end`: `start_ns` and
`speech_end_ns` of the log, for what came after the frame was written that holds the utterance's first sample that is
not 0 (for `start`), or its last speech sample n (for `end`); what came before could not yet answer it.

Their instants, replayed: `open`: the connection stands · a message: it arrived · `start`, `end`: the lane's sample 0 is
taken to lie the whole lane so far before the arrival of the frame that holds the sample in question, the utterance's
first sample `first` to lie as far before its first sample that is not 0 as in the recorded clip; then
start = sample 0 + first/rate, end = start + (n+1)/rate, each term rounded to a nanosecond as the client rounds it.
Where frames leave exactly when they are due and messages take no time, every latency comes back equal to the
nanosecond.
"""

"""What lies between a latency's parts: silence before speech, the commit, the server's own voice detection.

silence_padding_ms = first_audible − first_packet: how much of the voice-to-voice latency is silence that the peer sent.
commit_to_first_packet_ms = first_packet − turn_committed (class C: the request).
server_vad_delay_ms = arrival of the server's word that speech stopped − speech_end, class B only. Negative where the
server cut the user off.
"""

from __future__ import annotations

from metrics.measures.base import latency

SILENCE_PADDING = latency("silence_padding_ms", "first_audible", "first_packet")
COMMIT_TO_FIRST_PACKET = latency("commit_to_first_packet_ms", "first_packet", "turn_committed")
SERVER_VAD_DELAY = latency("server_vad_delay_ms", "server_vad_stopped", "speech_end")

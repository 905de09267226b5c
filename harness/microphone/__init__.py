"""A person converses with the target, by microphone and loudspeaker."""

"""The realtime server of the package `speech-to-speech`, which we did not write, in an environment of its own."""

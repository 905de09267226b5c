"""METEOR of a caption or translation against its reference, in the variant that AudioBench uses."""

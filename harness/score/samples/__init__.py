"""What is to be scored: the replies of a run, or the audio files of a folder with what is known of them."""

"""Many dialogues at once: when each begins, closed loop and open loop, and the search for the most that hold."""

"""Short-term memory: neutral messages, sessions that survive restarts, the transcript and the search over it."""

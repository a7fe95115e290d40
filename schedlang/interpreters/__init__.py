"""What reads a trace: replay, assess, flatten."""

"""Worker processes, their supervisor and the protocol between them."""

"""Whether other work disturbs the machine while programs are timed."""

"""The views of a report: what each shows, and the sentence that says what is to be seen."""

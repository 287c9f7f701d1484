"""What a run reports, how it is followed while it runs, and what is kept of it: records, tails, the summary, the views."""

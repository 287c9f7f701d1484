"""Memory, time and layout of a job before it runs: pure arithmetic."""

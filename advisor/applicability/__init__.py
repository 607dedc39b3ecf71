"""Stage: question, machine and catalogue -> `Plan`, with a reason for each excluded workflow."""

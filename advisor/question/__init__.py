"""Stage: `Answers` -> `Question`, checked against the machine and the catalogue."""

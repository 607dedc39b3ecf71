"""Stage: scores -> `Recommendation`. Pure: the same scores and results give the same bytes."""

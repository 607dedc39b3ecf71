"""What a run builds and times next, until it is finished."""

"""From the events of a run to its answer: figures, scores, recommendation. Starts no workers."""

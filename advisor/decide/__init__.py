"""From the events of a run to its answer: figures, scores, recommendation.

All of it is pure: equal events give an equal answer, also years later on another machine.
"""

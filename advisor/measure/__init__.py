"""Stage: summarise what the workers reported as `Results`.

The caller passes the verdicts of the races, so that this stage does not depend on the pipeline.
"""

"""Code that only the scripts for users have; `advisor.recipes` bundles it. No worker loads it."""

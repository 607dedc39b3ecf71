"""Main programs of the recipes. `advisor.recipes` bundles them; no worker uses them."""

"""From options and the facts about workflows: what is asked, and which arms are measured."""

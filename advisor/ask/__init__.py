"""Options, machine and facts about workflows: what is asked, and which arms are measured."""

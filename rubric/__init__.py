"""What is known before anything is measured, as data: workflows, criteria, models, presets."""

"""Tables and phrases that several outputs share."""

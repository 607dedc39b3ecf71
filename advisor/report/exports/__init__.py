"""Tables and files in other tools' formats."""

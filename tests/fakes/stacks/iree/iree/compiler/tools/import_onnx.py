import pathlib
import sys

if __name__ == "__main__":
    pathlib.Path(sys.argv[sys.argv.index("-o") + 1]).write_text("module {}")

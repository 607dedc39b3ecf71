import argparse
import pathlib

# A stand-in for IREE's importer with the options that the probe uses. It writes no program: its
# outputs only show the tests which options it was given.
parser = argparse.ArgumentParser()
parser.add_argument("input", type=pathlib.Path)
parser.add_argument("-o", type=pathlib.Path)
parser.add_argument("--opset-version")
parser.add_argument("--large-model", action="store_true")
parser.add_argument("--externalize-params", action="store_true")
parser.add_argument("--params-scope")
parser.add_argument("--save-params-to", type=pathlib.Path)

if __name__ == "__main__":
    arguments = parser.parse_args()
    # The error of the importer of 3.13.
    if arguments.large_model and arguments.opset_version:
        raise NotImplementedError(
            "Updating the opset version for large models is currently unsupported."
        )
    arguments.o.write_text(arguments.params_scope if arguments.externalize_params else "")
    if arguments.externalize_params:
        arguments.save_params_to.write_text("weights")

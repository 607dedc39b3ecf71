import argparse
import pathlib

#: Of the importer's options, those that the probe gives; what is written names the scope of the
#: weights that lie beside it.
parser = argparse.ArgumentParser()
parser.add_argument("input", type=pathlib.Path)
parser.add_argument("-o", type=pathlib.Path)
parser.add_argument("--opset-version")
parser.add_argument("--large-model", action="store_true")
parser.add_argument("--externalize-params", action="store_true")
parser.add_argument("--params-scope")
parser.add_argument("--save-params-to", type=pathlib.Path)

if __name__ == "__main__":
    asked = parser.parse_args()
    # As the importer of 3.13 refuses it, in its words: a probe that asks for both is to fail here
    # as it would there.
    if asked.large_model and asked.opset_version:
        raise NotImplementedError(
            "Updating the opset version for large models is currently unsupported."
        )
    asked.o.write_text(asked.params_scope if asked.externalize_params else "")
    if asked.externalize_params:
        asked.save_params_to.write_text("weights")

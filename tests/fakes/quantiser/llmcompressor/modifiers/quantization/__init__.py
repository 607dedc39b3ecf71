class QuantizationModifier:
    def __init__(self, targets, scheme, ignore):
        self.targets, self.scheme, self.ignore = targets, scheme, ignore

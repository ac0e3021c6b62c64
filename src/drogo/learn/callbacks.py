"""Stand-in until the real callbacks are merged."""


class TensorBoard:
    def __init__(self, directory):
        self.directory = directory

    def __call__(self, event):
        pass


class WandB:
    def __init__(self, **settings):
        self.settings = settings

    def __call__(self, event):
        pass

"""A display that nobody looks at."""


class Visdom:
    def __init__(self, *_, **__):
        pass

    def __getattr__(self, name):
        return lambda *_, **__: None

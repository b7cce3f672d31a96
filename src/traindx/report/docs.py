"""Where a rule's page stands on the documentation site."""

SITE = "https://traindx.readthedocs.io/"


def page_url(code: str) -> str:
    """The address of a rule's page."""
    return f"{SITE}rules/{code.lower()}/"

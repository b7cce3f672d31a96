"""Where a run happens: commit, versions, arguments, all without starting a process and without keeping a secret."""

from __future__ import annotations

import math
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

HIDDEN = "***"

_SECRET_NAME = re.compile(
    r"(api.?key|access.?key|secret|token(?!i[sz])|passw|passphrase|\bpwd\b|credential|private.?key|bearer|cookie|\bauth\b|\bkey\b)",
    re.I,
)
# "token" is also what language models count
_COUNT_NAME = re.compile(
    r"(num|max|min|n|per|count|len|length|total|special|pad|eos|bos|unk|mask)[-_ ]?(new[-_ ]?)?tokens?\b"
    r"|tokens?[-_ ](per|ids?|count|len|length|num)",
    re.I,
)
_SECRET_FORM = re.compile(
    r"^(sk-|pk-|rk-|ghp_|gho_|ghs_|ghu_|github_pat_|glpat-|hf_[A-Za-z]|AKIA|ASIA|xox[abprs]-|eyJ[A-Za-z0-9_-]{8,}\.|AIza|ya29\.|npm_|pypi-|SG\.|dop_v1_)"
)
_URL_LOGIN = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*://)[^/@\s]+@", re.I)
_PIECES = re.compile(r"[=,;:&?\s'\"|]+")
_LONG = 20  # characters before randomness is judged
_BITS = 3.5  # bits per character: words and paths lie below 3.3, random base64 above 4, hex near 3.7


def redacted(argv: list[str]) -> list[str]:
    """Arguments with secrets hidden: by the name of the option, by well-known forms, and by randomness.

    >>> redacted(["train.py", "--lr", "0.1", "--api-key", "abc", "--url=https://me:pw@host/x"])
    ['train.py', '--lr', '0.1', '--api-key', '***', '--url=https://***@host/x']
    """
    out: list[str] = []
    hide = False
    for word in map(str, argv):
        if hide and not word.startswith("--"):
            out.append(HIDDEN)
            hide = False
            continue
        name, equals, _ = word.partition("=")
        secret = _names_secret(name) and (name.startswith("-") or equals != "")
        if secret and equals:
            out.append(f"{name}={HIDDEN}")
        else:
            out.append(scrubbed(word))
        hide = secret and not equals and name.startswith("-")
    return out


def _names_secret(name: str) -> bool:
    return bool(_SECRET_NAME.search(name)) and not _COUNT_NAME.search(name)


def scrubbed(text: str) -> str:
    """A text without logins in addresses and without pieces that look like keys."""
    text = _URL_LOGIN.sub(rf"\g<scheme>{HIDDEN}@", text)
    for piece in sorted(set(_PIECES.split(text)), key=len, reverse=True):
        for part in {piece, *piece.split("/")}:
            if part and part != HIDDEN and looks_secret(part):
                text = text.replace(part, HIDDEN)
    return text


def looks_secret(word: str) -> bool:
    """Whether a word is a known kind of key, or too random to be a name.

    >>> looks_secret("resnet50_imagenet_baseline_v2"), looks_secret("9f86d081884c7d659a2feaa0c55ad015")
    (False, True)
    """
    if _SECRET_FORM.match(word):
        return True
    if len(word) < _LONG or not re.fullmatch(r"[A-Za-z0-9+_\-.~=]+", word):
        return False
    longest = max(re.split(r"[-_.]", word), key=len)  # names are made of short words
    if len(longest) < _LONG or not (re.search(r"\d", longest) and re.search(r"[A-Za-z]", longest)):
        return False
    return entropy(longest) >= min(_BITS, math.log2(len(longest)) - 1.3)


def entropy(word: str) -> float:
    """Bits per character."""
    n = len(word)
    return -sum(c / n * math.log2(c / n) for c in Counter(word).values()) if n else 0.0


def commit_of(start: Path) -> str | None:
    """The commit of the repository `start` lies in, read from its .git folder; None without one."""
    try:
        for folder in (start, *start.parents):
            git = folder / ".git"
            if git.exists():
                return _head(_git_folder(git))
    except OSError:
        return None
    return None


def _git_folder(git: Path) -> Path:
    """The folder itself; a worktree has a file that names it."""
    if git.is_file():
        said = git.read_text(encoding="utf-8", errors="replace").strip().removeprefix("gitdir:").strip()
        path = Path(said)
        return path if path.is_absolute() else git.parent / path
    return git


def _head(git: Path) -> str | None:
    head = (git / "HEAD").read_text(encoding="utf-8", errors="replace").strip()
    if not head.startswith("ref:"):
        return _commit(head)
    ref = head.removeprefix("ref:").strip()
    if ".." in ref or ref.startswith("/"):
        return None  # data never names a path that we then follow
    shared = git
    if (common := git / "commondir").is_file():
        shared = (git / common.read_text(encoding="utf-8", errors="replace").strip()).resolve()
    for base in (git, shared):
        if (base / ref).is_file():
            return _commit((base / ref).read_text(encoding="utf-8", errors="replace"))
    packed = shared / "packed-refs"
    if packed.is_file():
        for line in packed.read_text(encoding="utf-8", errors="replace").splitlines():
            commit, _, name = line.partition(" ")
            if name.strip() == ref:
                return _commit(commit)
    return None


def _commit(text: str) -> str | None:
    found = text.strip()
    return found if re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", found) else None


def versions() -> dict[str, str]:
    """Versions of python, traindx and of what the program has imported."""
    from traindx import __version__

    found = {"python": ".".join(str(n) for n in sys.version_info[:3]), "traindx": __version__}
    for name in (
        "torch",
        "numpy",
        "torchvision",
        "transformers",
        "lightning",
        "pytorch_lightning",
        "accelerate",
        "datasets",
        "peft",
    ):
        version: Any = getattr(sys.modules.get(name), "__version__", None)
        if version is not None:
            found[name] = str(version)
    return found

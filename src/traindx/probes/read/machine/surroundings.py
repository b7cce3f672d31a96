"""Where a run happens: commit, versions, arguments, all without starting a process and without keeping a secret."""

from __future__ import annotations

import math
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from traindx import opening
from traindx.record.sources import HIDDEN

# Words of a name whose value is a secret, whatever it is,
_SURE = (
    r"api[-_ ]?key|access[-_ ]?key|account[-_ ]?key|private[-_ ]?key|secret|passw|passphrase|pwd|cred(s|ential)?|bearer|cookie"
    r"|authorization|webhook|session[-_ ]?id"
)
# and those whose value is one unless it is a plain number: "token", "key" and "pass" are also counted
_MAYBE = r"token|auth|key|pass|sig|signature|otp|pin|sas|dsn|login"
_SECRET_NAME = re.compile(rf"(?<![a-z])({_SURE})", re.I)
_MAYBE_NAME = re.compile(rf"(?<![a-z])({_MAYBE})(?![a-z])", re.I)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_COUNT_NAME = re.compile(
    r"(num|max|min|n|per|count|len|length|total|special|pad|eos|bos|unk|mask)[-_ ]?(new[-_ ]?)?tokens?\b"
    r"|tokens?[-_ ](per|ids?|count|len|length|num)|key[-_ ]?(dim|size|len|points?|frames?)",
    re.I,
)
_NUMBER = re.compile(r"[-+]?[0-9.,e+-]{1,12}|true|false|none|null|yes|no|on|off", re.I)
_NAMED = re.compile(r"""[\w.\-]+["']?\s*(?:=>|[=:])\s*(?!//)""")
_VALUE = re.compile(r"""(?:(?:bearer|basic|token)\s+)?("[^"]*"|'[^']*'|[^\s,;&|)}\]"']+)""", re.I)
_BEARER = re.compile(r"\b(bearer|basic)\s+[A-Za-z0-9+/._~=-]{6,}", re.I)
_BLOCK = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(-----END [A-Z ]*-----|\Z)", re.S)
_SECRET_FORM = re.compile(
    r"^(sk[-_]|pk-|pk_live|rk[-_]|ghp_|gho_|ghs_|ghu_|github_pat_|glpat-|hf_[A-Za-z]|AKIA|ASIA|xox[abprs]-|xapp-|eyJ[A-Za-z0-9_-]{8,}\."
    r"|AIza|ya29\.|npm_|pypi-|SG\.|dop_v1_|gsk_|glsa_|nvapi-|r8_|hvs\.|whsec_|shpat_|lin_api_|tvly-|wandb_v1_)"
)
_URL_LOGIN = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*://)[^/\s]+@", re.I)
_PIECES = re.compile(r"[=,;:&?\s'\"|]+")
_MOST_OF_GIT = 16 << 20  # bytes of a file of git's
_MOST = 8000  # characters of a text that are looked through; the rest of a longer one is not kept
_LONG = 20  # characters before randomness is judged
_BITS = 3.5  # bits per character: words and paths lie below 3.3, random base64 above 4, hex near 3.7


def redacted(argv: list[str]) -> list[str]:
    """Arguments with secrets hidden: by the name before them, by well-known forms, and by randomness.

    >>> redacted(["train.py", "--lr", "0.1", "--api-key", "abc", "--url=https://me:pw@host/x", "--max-tokens", "9"])
    ['train.py', '--lr', '0.1', '--api-key', '***', '--url=https://***@host/x', '--max-tokens', '9']
    """
    out: list[str] = []
    before = ""  # the option whose value comes next
    for word in map(str, argv):
        if before and not word.startswith("--"):
            out.append(HIDDEN if hides(before, word) else scrubbed(word))
            before = ""
            continue
        out.append(scrubbed(word))
        before = word if word.startswith("-") and "=" not in word else ""
    return out


def names_secret(name: str) -> bool:
    """Whether a name, or a line that holds one, speaks of a secret."""
    return hides(name, "word")


def hides(name: str, value: str) -> bool:
    """Whether the value of that name is a secret."""
    name = _CAMEL.sub("_", name)
    if _COUNT_NAME.search(name):
        return False
    return bool(_SECRET_NAME.search(name)) or (bool(_MAYBE_NAME.search(name)) and not _NUMBER.fullmatch(value.strip("\"'")))


def scrubbed(text: str) -> str:
    """A text without values of secret names, logins in addresses, and pieces that look like keys.

    >>> scrubbed('{"api_key": "hunter2", "lr": 0.1}'), scrubbed("Authorization: Bearer abc"), scrubbed("Server=db;Pwd=x;Port=1")
    ('{"api_key": ***, "lr": 0.1}', 'Authorization: ***', 'Server=db;Pwd=***;Port=1')
    """
    text = text if len(text) <= _MOST else f"{text[:_MOST]} …"
    text = _BLOCK.sub(HIDDEN, text)
    text = _URL_LOGIN.sub(rf"\g<scheme>{HIDDEN}@", text)
    at = 0
    while (name := _NAMED.search(text, at)) is not None:
        at, value = name.end(), _VALUE.match(text, name.end())
        if value is not None and hides(name[0], value[1]):
            text = text[:at] + HIDDEN + text[value.end() :]
    text = _BEARER.sub(rf"\g<1> {HIDDEN}", text)
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
        said = _said(git).removeprefix("gitdir:").strip()
        path = Path(said)
        return path if path.is_absolute() else git.parent / path
    return git


def _head(git: Path) -> str | None:
    head = _said(git / "HEAD")
    if not head.startswith("ref:"):
        return _commit(head)
    ref = head.removeprefix("ref:").strip()
    if ".." in ref or ref.startswith("/"):
        return None  # data never names a path that we then follow
    shared = git
    if (common := git / "commondir").is_file():
        shared = (git / _said(common)).resolve()
    for base in (git, shared):
        if (base / ref).is_file():
            return _commit(_said(base / ref))
    packed = shared / "packed-refs"
    if packed.is_file():
        for line in _said(packed).splitlines():
            commit, _, name = line.partition(" ")
            if name.strip() == ref:
                return _commit(commit)
    return None


def _said(path: Path) -> str:
    return opening.whole(path, _MOST_OF_GIT).decode("utf-8", "replace").strip()


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

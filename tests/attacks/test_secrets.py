"""Secrets in arguments and error messages are not kept (S17)."""

from __future__ import annotations

import pytest

from traindx.probes.read.machine.surroundings import redacted, scrubbed

S = "hunter2x"  # short and no riddle: only what stands before it tells what it is
ARGV = [
    ["--api-key", S],
    [f"--api_key={S}"],
    [f"--apiKey={S}"],
    ["--password", S],
    ["--pass", S],
    ["--creds", S],
    ["--credentials", S],
    ["--hf-token", S],
    ["--wandb_key", S],
    ["--auth", f"me:{S}"],
    ["-token", S],
    [f"PASSWORD={S}"],
    [f"AWS_SECRET_ACCESS_KEY={S}"],
    [f"+db.password={S}"],
    [f"db.pwd={S}"],
    [f'{{"api_key": "{S}"}}'],
    [f"{{'user': 'x', 'token': '{S}'}}"],
    ["--header", f"Authorization: Bearer {S}"],
    ["--header", f"X-Api-Key: {S}"],
    ["-H", f"Cookie: session={S}"],
    ["--db", f"Server=db;User Id=me;Pwd={S};"],
    ["--conn", f"host=db user=me password={S} port=5"],
    ["--storage", f"DefaultEndpointsProtocol=https;AccountKey={S}"],
    ["--url", f"https://blob.example/x?sv=1&sig={S}&se=2"],
    ["--url", f"https://example.org/cb?access_token={S}"],
    ["--url", f"postgres://me:{S}@db/x"],
    ["--url", f"s3://{S}:x@bucket/y"],
    ["--slack-webhook", f"https://hooks.example/{S}"],
    ["--passphrase", S],
    ["--key-file-password", S],
    ["--otp", S],
    [f"token: {S}"],
    [f"password => {S}"],
    ["--bearer", S],
    ["--secret", "123456"],
    ["--password", "123456"],
]


@pytest.mark.parametrize("words", ARGV, ids=lambda w: " ".join(w)[:50])
def test_a_secret_argument_is_hidden(words: list[str]) -> None:
    kept = " ".join(redacted(["train.py", *words, "--lr", "0.1"]))
    assert S not in kept and "123456" not in kept and kept.endswith("--lr 0.1")


FORMS = ["ghp_" + "a1B2" * 9, "hf_" + "aB" * 17, "AKIA" + "Q1" * 8, "sk-proj-" + "x9" * 20, "eyJhbGciOiJI.eyJzdWIi.c2ln"]
TEXTS = [
    f"401 Client Error for url: https://api.example/v1?api_key={S}",
    f"connection to 'postgresql://me:{S}@db:5/x' failed",
    f"KeyError: {{'password': '{S}'}}",
    f"headers were {{'Authorization': 'Bearer {S}'}}",
    f"invalid password={S}; try again",
    f"-----BEGIN RSA PRIVATE KEY-----\n{S}\n-----END RSA PRIVATE KEY-----",
    *(f"cannot log in with {form}" for form in FORMS),
]


@pytest.mark.parametrize("text", TEXTS, ids=lambda t: t[:40])
def test_a_secret_in_an_error_message_is_hidden(text: str) -> None:
    kept = scrubbed(text)
    assert S not in kept and not any(form in kept for form in FORMS)


PLAIN = [
    ["--max-tokens", "512"],
    ["--max_new_tokens=64"],
    ["--tokenizer", "gpt2"],
    ["--key-dim", "64"],
    ["--passes", "3"],
    ["--pass", "3"],
    ["--authors", "smith"],
    ["--monkey", "see"],
    ["--num-keys=8"],
    ["--data", "/data/imagenet/train"],
    ["--model", "resnet50_imagenet_baseline_v2"],
    ["model.hidden=512", "optim.lr=3e-4"],
    ["--pin-memory"],
    ["--signal-window", "5"],
]


@pytest.mark.parametrize("words", PLAIN, ids=" ".join)
def test_what_is_no_secret_stays(words: list[str]) -> None:
    assert redacted(words) == words

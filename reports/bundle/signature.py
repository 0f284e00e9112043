"""Signatures of OpenSSH keys: made and checked by ssh-keygen (ssh-keygen(1), -Y; the format is that
of PROTOCOL.sshsig).
"""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass
from pathlib import Path

from cnibench.errors import InputError, MissingError, UsageError
from cnibench.system import process, scratch

NAMESPACE = "cnibench-bundle"
_TIMEOUT = 30.0  # s
_BEGIN, _END = "-----BEGIN SSH SIGNATURE-----", "-----END SSH SIGNATURE-----"
_LONGEST = 16384  # characters; that of an RSA key of 16384 bits has 6000
_WIDTH = 70
_GOOD = re.compile(r'Good "[^"]*" signature .*?with (\S+) key (SHA256:[A-Za-z0-9+/]+)')


@dataclass(frozen=True)
class Signer:
    """Whose signature it is: the key's type and fingerprint; ``name`` is what a list of allowed
    signers calls it, '' where no list was asked.
    """

    kind: str
    fingerprint: str
    name: str = ""


def sign(text: str, key: Path) -> str:
    """The signature of ``text``. ``key`` is a private key, or a public one whose private key the
    user's ssh-agent has. Raises UsageError, MissingError.
    """
    if not key.is_file():
        raise UsageError(f"{key}: no such key", "ssh-keygen -t ed25519 makes one")
    done = _keygen(["-Y", "sign", "-n", NAMESPACE, "-f", str(key)], text)
    if done.returncode or not done.stdout.startswith(_BEGIN):
        said = (done.stderr.strip().splitlines() or ["it says no reason"])[-1]
        raise UsageError(
            f"{key}: ssh-keygen cannot sign with it: {said}",
            "a key with a passphrase: 'ssh-add KEY', then --sign KEY.pub",
        )
    return done.stdout


def check(text: str, signature: str, signers: Path | None = None) -> Signer:
    """Who signed ``text``. With ``signers``, a file of allowed signers (ssh-keygen(1)), it must be
    one of them. Raises InputError that says what is wrong.
    """
    _canonical(signature)
    with scratch.folder() as folder:
        file = folder / "signature"
        file.write_text(signature, encoding="ascii")
        common = ["-n", NAMESPACE, "-s", str(file)]
        done = _keygen(["-Y", "check-novalidate", *common], text)
        found = _GOOD.search(done.stdout)
        if done.returncode or not found:
            raise InputError("the signature does not match the contents", "ask who published it")
        signer = Signer(found[1], found[2])
        if signers is None:
            return signer
        known = _keygen(["-Y", "find-principals", "-f", str(signers), "-s", str(file)], "")
        for name in known.stdout.split("\n")[0].split(",") if not known.returncode else []:
            said = _keygen(["-Y", "verify", "-f", str(signers), "-I", name, *common], text)
            if not said.returncode:
                return Signer(found[1], found[2], name)
    raise InputError(
        f"its key {signer.fingerprint} is not one of {signers}", "add the key there if you trust it"
    )


def _canonical(signature: str) -> None:
    """Raises InputError unless it is written as ssh-keygen writes it: one signature has one
    form.
    """
    lines = signature.split("\n") if len(signature) <= _LONGEST else []
    body = "".join(lines[1:-2])
    try:
        blob = base64.b64decode(body, validate=True)
    except (binascii.Error, ValueError):
        blob = b""
    text = base64.b64encode(blob).decode()
    wrapped = [text[at : at + _WIDTH] for at in range(0, len(text), _WIDTH)]
    if not blob.startswith(b"SSHSIG") or lines != [_BEGIN, *wrapped, _END, ""]:
        raise InputError("the signature cannot be read", "ask who published it")


def _keygen(arguments: list[str], text: str) -> process.Done:
    try:
        return process.run(
            ["ssh-keygen", *arguments],
            timeout=_TIMEOUT,
            input=text,
            check=False,
            # a question for a passphrase would stop us: nobody can answer it
            env={"SSH_ASKPASS": "/bin/false", "SSH_ASKPASS_REQUIRE": "force", "LC_ALL": "C"},
        )
    except MissingError:
        raise MissingError(
            "the program 'ssh-keygen' is not installed", "apt-get install openssh-client"
        ) from None

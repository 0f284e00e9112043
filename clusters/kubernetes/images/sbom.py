"""What is in an image, as SPDX 2.3: all packages that dpkg lists. A program that runs while the
image is built, with the image's name as its argument. Standard library only.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

FIELDS = ("Package", "Version", "Architecture", "source:Package", "source:Version")
_FORMAT = "\\t".join(f"${{{one}}}" for one in FIELDS) + "\\n"


def document(image: str, listed: str, release: str, epoch: int) -> dict[str, Any]:
    """``listed`` has a line of FIELDS for each package, ``release`` is that of Debian (13)."""
    found = sorted(_packages(listed, release), key=lambda one: str(one["SPDXID"]))
    digest = hashlib.sha256(listed.encode()).hexdigest()
    return {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"cnibench/{image}",
        "documentNamespace": f"https://spdx.org/spdxdocs/cnibench-{image}-{digest}",
        "creationInfo": {
            "created": f"{datetime.fromtimestamp(epoch, UTC):%Y-%m-%dT%H:%M:%SZ}",
            "creators": ["Tool: cnibench"],
        },
        "packages": found,
        "relationships": [
            {
                "spdxElementId": "SPDXRef-DOCUMENT",
                "relationshipType": "DESCRIBES",
                "relatedSpdxElement": one["SPDXID"],
            }
            for one in found
        ],
    }


def _packages(listed: str, release: str) -> Iterator[dict[str, object]]:
    for line in listed.splitlines():
        name, version, architecture, source, of = line.split("\t")
        purl = f"pkg:deb/debian/{quote(name)}@{quote(version, safe=':')}"
        yield {
            "SPDXID": f"SPDXRef-{_word(name)}-{_word(architecture)}",
            "name": name,
            "versionInfo": version,
            "supplier": "Organization: Debian",
            "downloadLocation": "NOASSERTION",
            "filesAnalyzed": False,
            "licenseConcluded": "NOASSERTION",
            "licenseDeclared": "NOASSERTION",
            "copyrightText": "NOASSERTION",
            "sourceInfo": f"built from {source} {of}",
            "externalRefs": [
                {
                    "referenceCategory": "PACKAGE-MANAGER",
                    "referenceType": "purl",
                    "referenceLocator": f"{purl}?arch={architecture}&distro=debian-{release}",
                }
            ],
        }


def _word(text: str) -> str:
    """With the characters that an SPDX identifier may have."""
    return "".join(one if one.isalnum() or one in ".-" else f".{ord(one):x}." for one in text)


def main() -> None:
    """Prints the document of the machine that it runs on."""
    argv = ["dpkg-query", "--show", f"--showformat={_FORMAT}"]
    listed = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    facts = dict(
        line.partition("=")[::2] for line in Path("/etc/os-release").read_text().splitlines()
    )
    epoch = int(os.environ.get("SOURCE_DATE_EPOCH") or 0)
    print(
        json.dumps(document(sys.argv[1], listed, facts["VERSION_ID"].strip('"'), epoch), indent=1)
    )


if __name__ == "__main__":
    main()

"""Fetches the schema that Happy's own clients validate envelopes with (npm `@slopus/happy-wire`), for the tests.

`tools/happy-wire/package-lock.json` pins it and all its dependencies by hash. Standard library only.
"""

import sys

from tools.clis import attempt
from tools.npm_locked import Locked

WIRE = Locked("happy-wire", "Happy's schema", "7 MB")

if __name__ == "__main__":
    sys.exit(0 if attempt(WIRE.fetch) else 1)

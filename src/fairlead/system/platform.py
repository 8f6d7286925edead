"""Whether the parts that depend on the operating system use what only Linux has (/proc, pidfd, inotify, O_PATH).

FAIRLEAD_PORTABLE=1 turns that off on Linux too, so that the tests can run the code of other systems. The keeper's
process imports this module: only the standard library.
"""

import os
import sys
from typing import Final

_VARIABLE: Final = "FAIRLEAD_PORTABLE"
FORCED: Final = {_VARIABLE: os.environ[_VARIABLE]} if os.environ.get(_VARIABLE) else {}
"""The variable for processes of ours that get no other one, if it is set."""
PORTABLE: Final = sys.platform != "linux" or bool(FORCED)

FOLDER: Final = (os.O_RDONLY if PORTABLE else getattr(os, "O_PATH", os.O_RDONLY)) | os.O_DIRECTORY | os.O_CLOEXEC
"""The flags to open a folder as a starting point of paths. With O_PATH it need not be readable."""

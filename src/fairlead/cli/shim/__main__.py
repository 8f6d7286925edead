"""`python -m fairlead.cli.shim claude ARGS` and `... wrap COMMAND ARGS`: the shim without the other commands."""

import sys

from fairlead.cli.shim.entry import run_shim
from fairlead.cli.shim.invocation import split_wrapped
from fairlead.client.errors import ClientError
from fairlead.model.errors import FairleadError


def main(form: str, arguments: list[str]) -> None:
    try:
        if form == "wrap":
            run_shim(*split_wrapped(arguments))
        run_shim((), arguments)
    except (ClientError, FairleadError) as error:
        sys.exit(f"fairlead: {error.message}")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])

"""`python -m fairlead.cli`: the commands where the script `fairlead` is not, or not certainly, in PATH."""

from fairlead.cli.main import main

main()

"""The contract type `pure` of .importlinter: a forbidden contract that applies to the modules that .importlinter names
and to those whose docstring says "Pure". The name or the docstring of a package counts for every module below it.
"""

import ast
import functools
import re
from pathlib import Path
from typing import Any

from grimp import ImportGraph
from importlinter.contracts.forbidden import ForbiddenContract
from importlinter.domain.contract import ContractCheck
from importlinter.domain.imports import ModuleExpression

SOURCE = Path(__file__).resolve().parent.parent / "src"
_CLAIM = re.compile(r"\bPure\b")


@functools.cache
def pure_claims() -> frozenset[str]:
    """The modules and packages whose own docstring says that they are pure."""
    found = set()
    for path in SOURCE.glob("fairlead/**/*.py"):
        if _CLAIM.search(ast.get_docstring(ast.parse(path.read_text())) or ""):
            found.add(".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__"))
    return frozenset(found)


class PureContract(ForbiddenContract):
    type_name = "pure"

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        values: Any = self  # import-linter replaces the fields of the class by their values
        values.source_modules = {*values.source_modules, *map(ModuleExpression, pure_claims())}
        return super().check(graph, verbose)

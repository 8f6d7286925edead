"""The contract type `standard_library` of .importlinter: the source modules import only the standard library and each
other. It holds for the packages that contain them too, since Python runs those first.
"""

import sys
from typing import Any

from grimp import ImportGraph
from importlinter.application import output
from importlinter.domain import fields
from importlinter.domain.contract import Contract, ContractCheck


class StandardLibraryContract(Contract):
    type_name = "standard_library"
    source_modules = fields.ListField(subfield=fields.ModuleField())

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        modules: Any = self.source_modules  # import-linter replaces the fields of the class by their values
        sources = {module.name for module in modules}
        sources |= {name.rpartition(".")[0] for name in sources} | {name.partition(".")[0] for name in sources}
        found = [
            (importer, imported)
            for importer in sorted(sources)
            for imported in sorted(graph.find_modules_directly_imported_by(importer))
            if imported not in sources and imported.partition(".")[0] not in sys.stdlib_module_names
        ]
        return ContractCheck(kept=not found, metadata={"found": found})

    def render_broken_contract(self, check: ContractCheck) -> None:
        for importer, imported in check.metadata["found"]:
            output.print_error(f"{importer} imports {imported}", bold=False)

"""MetaSchedule's databases: reading them, writing them, and schedlang's own used by TVM's passes.

Importing this takes TVM's MetaSchedule along, so plain ``import schedlang`` does without.
"""

from schedlang.metaschedule.exporting import export_json, record_as_python
from schedlang.metaschedule.importing import (
    Exported,
    Imported,
    Partial,
    Skipped,
    Unexpressed,
    import_json,
)
from schedlang.metaschedule.view import TVMDatabase, as_tvm_database

__all__ = [
    "Exported",
    "Imported",
    "Partial",
    "Skipped",
    "TVMDatabase",
    "Unexpressed",
    "as_tvm_database",
    "export_json",
    "import_json",
    "record_as_python",
]

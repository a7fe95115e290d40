"""The tables of the SQLite file, and how older files become newer ones."""

from __future__ import annotations

# Stands in the file's header, so that another program's SQLite file is recognised.
APPLICATION_ID = 0x5343484C
FROZEN_ID = 0x53434846
"""The same of a file that holds winners only, and can only be read."""

# One script for each schema version; `user_version` says how many of them a file has seen.
# A seed is text because it may be wider than SQLite's 64-bit integers; samples are a JSON list.
MIGRATIONS = (
    """
    CREATE TABLE record (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        workload_key TEXT NOT NULL,
        workload_name TEXT NOT NULL,
        target_key TEXT NOT NULL,
        toolchain_key TEXT NOT NULL,
        trace_json TEXT NOT NULL,
        status TEXT NOT NULL,
        samples TEXT NOT NULL,
        latency REAL,
        message TEXT NOT NULL,
        verified INTEGER NOT NULL,
        search TEXT NOT NULL,
        seed TEXT,
        created REAL NOT NULL,
        stderr TEXT NOT NULL
    );
    CREATE INDEX record_by_latency ON record (workload_key, target_key, latency)
        WHERE latency IS NOT NULL;
    CREATE TABLE workload (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        key TEXT NOT NULL UNIQUE,
        name TEXT NOT NULL,
        script_json TEXT NOT NULL
    );
    """,
    # What records were measured with is stored once for all records that share it.
    """
    CREATE TABLE provenance (id INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE);
    ALTER TABLE record ADD COLUMN program_key TEXT NOT NULL DEFAULT '';
    ALTER TABLE record ADD COLUMN provenance_id INTEGER REFERENCES provenance;
    ALTER TABLE record ADD COLUMN run_id INTEGER;
    ALTER TABLE record ADD COLUMN proposal INTEGER;
    CREATE INDEX record_by_program ON record (workload_key, program_key);
    CREATE INDEX record_by_run ON record (run_id) WHERE run_id IS NOT NULL;
    ALTER TABLE workload ADD COLUMN exact_key TEXT NOT NULL DEFAULT '';
    ALTER TABLE workload ADD COLUMN family_key TEXT NOT NULL DEFAULT '';
    CREATE INDEX workload_by_exact_key ON workload (exact_key);
    CREATE INDEX workload_by_family_key ON workload (family_key);
    CREATE TABLE run (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        identity TEXT NOT NULL,
        workload_key TEXT NOT NULL,
        target_key TEXT NOT NULL,
        toolchain_key TEXT NOT NULL,
        search TEXT NOT NULL,
        seed TEXT NOT NULL,
        created REAL NOT NULL,
        known INTEGER NOT NULL,
        owner TEXT NOT NULL,
        state TEXT NOT NULL,
        state_asks INTEGER NOT NULL,
        outcome TEXT NOT NULL
    );
    CREATE INDEX run_by_identity ON run (identity);
    CREATE TABLE ask (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        run_id INTEGER NOT NULL REFERENCES run,
        size INTEGER NOT NULL,
        seconds REAL NOT NULL
    );
    CREATE INDEX ask_by_run ON ask (run_id);
    """,
    # How records did in finals; `held` is the same for those that were timed against each other.
    """
    CREATE TABLE final (
        id INTEGER PRIMARY KEY,
        record_id INTEGER NOT NULL REFERENCES record,
        held REAL NOT NULL,
        place INTEGER NOT NULL,
        status TEXT NOT NULL,
        samples TEXT NOT NULL
    );
    CREATE INDEX final_by_record ON final (record_id);
    """,
    # The programs that runs are measuring. A claim is void when its run has no living owner.
    """
    CREATE TABLE claim (
        program_key TEXT NOT NULL,
        run_id INTEGER NOT NULL REFERENCES run,
        PRIMARY KEY (program_key, run_id)
    ) WITHOUT ROWID;
    """,
    # Programs that differ in their shapes share a kin key.
    """
    ALTER TABLE workload ADD COLUMN kin_key TEXT NOT NULL DEFAULT '';
    CREATE INDEX workload_by_kin_key ON workload (kin_key);
    """,
    # What runs keep besides their records; the phases of a trial and the tags are JSON lists.
    """
    ALTER TABLE run ADD COLUMN notes TEXT NOT NULL DEFAULT '';
    ALTER TABLE run ADD COLUMN tags TEXT NOT NULL DEFAULT '[]';
    CREATE TABLE trial (
        record_id INTEGER PRIMARY KEY REFERENCES record,
        worker INTEGER NOT NULL,
        phases TEXT NOT NULL
    );
    CREATE TABLE phase (
        run_id INTEGER NOT NULL REFERENCES run,
        activity TEXT NOT NULL,
        began REAL NOT NULL,
        ended REAL NOT NULL,
        worker INTEGER,
        PRIMARY KEY (run_id, began, activity)
    ) WITHOUT ROWID;
    CREATE TABLE rejection (
        run_id INTEGER NOT NULL REFERENCES run,
        module TEXT NOT NULL,
        instruction TEXT NOT NULL,
        block TEXT NOT NULL,
        reason TEXT NOT NULL,
        count INTEGER NOT NULL,
        message TEXT NOT NULL,
        PRIMARY KEY (run_id, module, instruction, block, reason)
    ) WITHOUT ROWID;
    """,
    # What other work did to samples: a JSON list, or nothing where it is unknown.
    """
    ALTER TABLE record ADD COLUMN disturbance TEXT NOT NULL DEFAULT '';
    """,
)
SCHEMA = len(MIGRATIONS)
# Files of this schema and of newer ones can be read as they are.
READABLE = 2
# The first one that has the table `final`.
WITH_FINALS = 3
# The first one that has the column `kin_key`.
WITH_KIN = 5
# The first one that has notes and details of runs.
WITH_DETAILS = 6
# The first one that tells how far samples were disturbed.
WITH_DISTURBANCE = 7
